"""This machine: the project, its settings, trust and logs, sockets between a user's processes, the embedded server."""
