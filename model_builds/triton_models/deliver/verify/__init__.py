"""`fleet verify`: compare built models on a real Triton server with their source.

`verify` sends the declared examples and compares every component (`comparing`). `server` finds and runs one
server for many models.
"""
