"""Packs a model into one immutable archive."""
