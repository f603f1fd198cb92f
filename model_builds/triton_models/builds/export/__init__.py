"""Exporters of a framework's network to a file that a Triton backend runs."""
