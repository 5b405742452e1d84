"""The histories that AI tools keep: read as conversations, written as archived sessions. Tool files are only read."""
