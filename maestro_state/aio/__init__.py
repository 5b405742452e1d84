"""Maestro for an event loop: rooms of `live` as they are, all others in threads."""
