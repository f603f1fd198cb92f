"""Python packages and environments inside an artifact.

`packages` copies packages next to a Python model, `slim` creates an environment from wheels, and `packed`
checks one packed with conda-pack or venv-pack. `declared` checks those that `declare.environments` declares,
and `builds.environments` puts them into an artifact.
"""
