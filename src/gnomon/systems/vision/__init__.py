"""Systems that look at images."""
