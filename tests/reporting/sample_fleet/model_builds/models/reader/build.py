"""Reads."""

BUILD = None  # the report looks at the file, and runs none
