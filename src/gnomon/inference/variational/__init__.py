"""Approximations found by optimization."""
