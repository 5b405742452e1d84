"""Discussions as files: events, the two documents of a discussion, contracts, replay, and the formats of the past.

Nothing here sees the server. Legacy formats end in `legacy.py`: past it there is one model.
"""
