"""Against the frameworks themselves, by their own suites where they ship them: `make test-reach` installs them."""
