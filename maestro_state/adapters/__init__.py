"""Sessions of other frameworks, kept in Maestro. Each module needs the extra of its framework, this package none."""
