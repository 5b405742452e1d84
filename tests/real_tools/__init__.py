"""The real AI tools against a model's API on loopback: `make test-tools`. Not a part of `make test`."""
