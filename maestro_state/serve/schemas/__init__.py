"""What requests may say and what answers look like, as values: checked when a request comes, shown in OpenAPI.

Answers have the fields of the documents that commands print with `--json`. A file for each noun.
"""
