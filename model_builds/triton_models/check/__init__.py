"""`fleet check`: find problems that Triton or SageMaker would refuse, without running either.

`check` runs every check on a `subject`: the models of an artifact or a repository, with the report of their
problems. `target` is the release, GPU and endpoint to check for. The other modules hold rules, each of one
topic, such as `ensemble`: `check_artifact` looks at all models together, `check_model` at one.

`survey` reads thousands of declarations during a synthesis, and finds those
that no endpoint of a release could serve.
"""
