"""What a declaration in `models/<name>/build.py` says, and how it is read."""
