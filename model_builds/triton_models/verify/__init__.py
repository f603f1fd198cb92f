"""`fleet verify`: built models on a real Triton server, compared with their source.

`verify` sends the declared examples and compares every component (`comparing`, `declared`). `serving` runs
one server for many models; `program` finds it and `process` starts it.

Imports: artifact, base, client, config, declare, facts.
"""
