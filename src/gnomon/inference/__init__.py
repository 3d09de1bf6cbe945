"""How hidden quantities are found: every engine acts on contracts and knows no concrete model."""
