"""Discussions: finding one, replaying it, and the formats of the past.

Nothing here sees the server. Legacy formats end in `legacy.py`: past it there is one model.
"""
