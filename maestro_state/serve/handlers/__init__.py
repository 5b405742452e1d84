"""Documents: what commands print with `--json`, asked for over HTTP; a file for each noun. Each verb is one call of a
room.
"""
