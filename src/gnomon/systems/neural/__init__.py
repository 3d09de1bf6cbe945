"""Networks of layers for rows of numbers."""
