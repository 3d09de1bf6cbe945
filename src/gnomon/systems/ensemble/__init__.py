"""Systems made of other systems, and forests."""
