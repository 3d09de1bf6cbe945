"""Densities by the chain rule: each column given those before it."""
