"""One reader for each shape of stream a tool prints; each module has a class `Stream`."""
