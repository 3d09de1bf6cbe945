"""Generators that learn from a critic."""
