"""How good a model is and how we know: scores that say whether they are exact, an estimate or a bound."""
