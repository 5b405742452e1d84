"""Work sessions as values and as files: records, breadcrumbs, trees, timelines, statistics, the file mailbox.

Never sees the server: what is here works the same on a live work session and on a folder that another program wrote.
"""
