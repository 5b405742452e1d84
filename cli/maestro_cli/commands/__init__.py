"""The commands, one file for each noun; `maestro_cli.command_table` registers them."""
