"""What writes generated code and documents."""
