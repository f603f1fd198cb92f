"""The parts of an endpoint: instances, server, network, and the way to a new configuration.

- `variants`, `core_dumps`: the instances behind a variant.
- `server`: how Triton is started.
- `deployment`: the ways to a new configuration.
- `async_inference`, `capture`, `s3_folder`: requests and answers in S3.
- `checks`, `deployment_checks`: the checks of all of these.
"""
