"""Generated from `_async` by `make generate`; never edited."""
