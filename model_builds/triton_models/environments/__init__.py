"""Python packages and environments that an artifact carries.

`packages` copies packages next to a Python model, `slim` makes an environment of wheels, and `packed`
inspects one that conda-pack or venv-pack made. A declaration names them in `declare.environments`;
`builds.environments` puts them into an artifact.

Imports: artifact, base, facts.
"""
