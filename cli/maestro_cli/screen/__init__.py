"""What a person at a terminal sees: columns, conversations, figures, questions."""
