"""Factor models."""
