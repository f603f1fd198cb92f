"""Declarations: the classes of `models/<name>/build.py`, and reading them without running a build.

`reading` finds and loads a declaration; `declaration` has `ModelDefinition`, and `models`, `tensors`,
`backends`, `ensembles`, `environments`, `serving` and `weights` the values in it. `mistakes` and `places`
report every wrong value with its line. `variables`, `written_plans` and `sequence_models` read the text of
a folder without running it. `new` copies a declaration under another name. `triton_models.spec` is the door
for users.

Imports: base, facts.
"""
