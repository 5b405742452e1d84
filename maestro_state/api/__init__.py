"""Hand-written shells: the only code that awaits the server. `_sync` is generated from here."""
