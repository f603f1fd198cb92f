"""Declarations: the classes of `models/<name>/build.py`, and reading them without running a build.

`reading` finds and loads a declaration. `declaration` has `ModelDefinition`, and `models`, `tensors`,
`backends`, `calls`, `ensembles`, `environments`, `serving` and `weights` have the values in it. `mistakes`
and `places` report every wrong value with its line. `requires` checks a build's requirements.
`variables`, `written_plans` and `sequence_models`
search the source code of a folder without running it. `new` copies a declaration under another name. Users
import from `triton_models.spec`.

Imports: base, facts.
"""
