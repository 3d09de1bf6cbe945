"""Weighted samples: importance sampling, its diagnostics, annealed importance sampling."""
