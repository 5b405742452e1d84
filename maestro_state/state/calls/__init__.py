"""Pure: arguments become a Call, a reply becomes a model or an error. No I/O of any kind."""
