"""`fleet check`: find problems that Triton or SageMaker would refuse, without running either.

`check` runs every check on a `subject`: the models of an artifact or a repository. `target` is the release,
GPU and endpoint to check for. The other modules hold the checks, each of one topic, such as `ensemble` or
`release`.

Imports: artifact, base, config, declare, environments, facts.
"""
