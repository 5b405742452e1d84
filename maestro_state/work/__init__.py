"""What work sessions come to: statistics, timeline, tree.

Never sees the server: what is here works the same on a live work session and on a folder that another program wrote.
"""
