"""The System, scikit-learn's face of a model: fitting, prediction, partial fits, libraries behind it, saving."""
