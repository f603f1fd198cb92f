"""The `fleet` command.

`main` lists the verbs in sections and imports the module of a verb when it runs. `options` has what several
verbs share; each other module the arguments of one section.

Imports: base, check, facts.
"""
