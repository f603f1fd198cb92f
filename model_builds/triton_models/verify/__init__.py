"""`fleet verify`: compare built models on a real Triton server with their source.

`verify` sends the declared examples and compares every component (`comparing`, `declared`). `serving` runs
one server for many models; `program` finds its executable, and `process` starts it.

Imports: artifact, base, builds, client, config, declare, facts.
"""
