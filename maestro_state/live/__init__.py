"""What talks to the server while somebody waits: async by hand. `_sync` is generated from here."""
