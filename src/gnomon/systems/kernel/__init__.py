"""Kernel machines: decisions from inner products in a space of features that is never formed."""
