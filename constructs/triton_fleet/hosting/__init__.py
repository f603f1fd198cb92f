"""The parts of an endpoint: instances, server, network, and the way to a new configuration.

- `variants`, `values`, `capacity_reservation`, `core_dumps`: the instances behind a variant.
- `server`: how Triton is started.
- `network`, `compliance`: the VPC, and what compliance packs say of it.
- `deployment`: the ways to a new configuration.
- `async_inference`, `capture`, `s3_folder`: requests and answers in S3.
- `checks`, `deployment_checks`, `network_checks`: the checks of all of these.

Imports: arguments, metrics, repository.
"""
