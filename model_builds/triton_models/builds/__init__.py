"""Builds a model directory from its declaration."""
