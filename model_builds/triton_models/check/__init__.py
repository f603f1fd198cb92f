"""`fleet check`: what Triton or SageMaker would refuse, found without either.

`check` runs every check on a `subject`: the models of an artifact or a repository. `target` is the release,
GPU and endpoint to check for. Each other module holds the checks of one subject, such as `ensemble` or
`release`.

Imports: artifact, base, config, declare, environments, facts.
"""
