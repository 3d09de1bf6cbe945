"""Drawing and searching sequences from any model that tells the next token."""
