"""Graphs of variables: directed, undirected and layered, orders of elimination, what an observation couples."""
