"""The rooms: every verb there is, blocking."""
