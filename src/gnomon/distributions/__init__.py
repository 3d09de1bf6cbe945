"""Families of distributions that take Noise, and the domains their values live in."""
