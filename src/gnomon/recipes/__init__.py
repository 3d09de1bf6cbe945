"""Hyper-parameters: intervals that are checked, recipes that fill slots."""
