"""The repository that `fleet init` begins: files for the app, the stacks, the models and the tests.

`files` holds them as they are written, with @NAME@ and the like in a few of them; `models` holds the models
that a repository can begin with. `init` writes a new repository, and compares an older one with them.

`new` starts one model build: minimal, a copy of another, or `from_file`, a trained network or forest.
`adopted` makes one from a Triton model directory, and `cdk_json` names it among the fleet's models.
"""
