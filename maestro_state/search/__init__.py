"""Search: a cache of what sessions say, beside their archives, and how it is asked. Never sees a server."""
