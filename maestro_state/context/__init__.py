"""The project's own files, as context: which ones an argument means, and their bytes. Never one from outside it."""
