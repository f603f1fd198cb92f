"""Compares what built models answer with their source."""
