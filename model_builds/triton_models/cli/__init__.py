"""The `fleet` command.

`main` lists the verbs, and imports the module of a verb when it runs: `run` and the class of its options.
`parser` makes a parser from such a class. `starter` is what `fleet init` and `fleet new` write.
"""
