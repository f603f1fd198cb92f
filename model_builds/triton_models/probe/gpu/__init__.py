"""Probes on a machine with a GPU, inside a release's image."""
