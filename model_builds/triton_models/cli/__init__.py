"""The `fleet` command.

`main` lists the verbs in sections and imports the module of a verb when it runs. `options` contains the
options that several verbs share. Each of the other modules contains the arguments of one section, and
`starter` what `fleet init` and `fleet new` write.
"""
