"""The parts of an endpoint: instances, server, storage, and the way to a new configuration.

- `variants`: the instances behind a variant.
- `server`: how Triton is started.
- `deployment`: the ways to a new configuration.
- `storage`: requests, answers and captured data in S3.
"""
