"""What Maestro keeps, as values: frozen, without I/O. Imports nothing but the vocabulary, errors and the clock."""
