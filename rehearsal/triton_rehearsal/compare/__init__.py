"""`fleet compare`: variants of a model, measured side by side."""
