"""Sessions on disk: models to files and back, checked, aged and thrown away. Never sees a server."""
