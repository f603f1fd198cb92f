"""Errors, checks and small tools that every other room uses.

`errors` has `Problem` and `FleetError`, the shape of every message to a user; `checks` gives a problem the
id and the source of the check that found it. `outcome` is what a verb of the command line returns.
`suggest` finds the name that a mistyped one meant. `processes`, `unix_http`, `source_files` and `digests`
wrap the standard library.

Imports: nothing of ours.
"""
