"""Exact answers on small problems: enumeration of binary states, quadrature in one or two dimensions."""
