"""The `fleet` command.

`main` lists the verbs in sections and imports the module of a verb when it runs. `options` has the options
that several verbs share. Each other module has the arguments of one section.

Imports: base, check, facts.
"""
