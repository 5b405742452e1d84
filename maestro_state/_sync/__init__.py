"""Generated from `live` by `make generate`; never edited."""
