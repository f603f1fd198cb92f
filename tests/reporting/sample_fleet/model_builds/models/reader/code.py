"""The code of a model."""
