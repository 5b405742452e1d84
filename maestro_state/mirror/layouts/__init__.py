"""What each kind of record looks like on disk: names, paths, documents."""
