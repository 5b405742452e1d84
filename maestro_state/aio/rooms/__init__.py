"""Generated from the blocking rooms by `make generate`; never edited."""
