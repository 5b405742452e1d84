"""From the server to the disk: what has to happen to sessions also when nobody asks. Blocking."""
