"""Errors, names for messages, processes and files: what every room stands on."""
