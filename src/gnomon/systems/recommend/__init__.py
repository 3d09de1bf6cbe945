"""Recommenders: what a user would like, from who rated what."""
