"""The embedded stack: one supervisor beside the project's private server."""
