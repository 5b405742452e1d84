"""The images, built without Docker: `make test-image`."""
