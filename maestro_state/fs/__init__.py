"""The file layer: folders and files touched through handles that follow no link, locks, kernel calls."""
