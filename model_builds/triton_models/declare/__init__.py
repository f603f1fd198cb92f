"""Declarations: the classes of `models/<name>/build.py`, and reading them without running a build.

`reading` finds and loads a declaration. `declaration` has `ModelDefinition`, and `models`, `tensors`,
`backends`, `ensembles`, `environments`, `scheduling` and `weights` have its values. `mistakes` finds every
wrong value, with its line. `requires` checks a build's requirements, and
`network_inputs` the inputs of networks. `searched` reads the source code of a folder without running it.
`job` is for models that no class can declare. Users import from `triton_models.spec`.
"""
