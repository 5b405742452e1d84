"""Generated from `api` by `make generate`; never edited."""
