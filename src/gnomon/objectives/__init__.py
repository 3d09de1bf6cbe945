"""How a model is scored while it learns."""
