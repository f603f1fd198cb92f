"""Python packages and environments inside an artifact.

`packages` copies packages next to a Python model, and `slim` creates an environment from wheels. `declared`
checks those that `declare.environments` declares, also one packed with conda-pack or venv-pack, and
`builds.environments` puts them into an artifact.
"""
