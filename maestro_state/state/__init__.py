"""What is asked of the server: keys, scripts and calls. Pure: no socket, no file, no clock."""
