"""Errors, checks and small tools that every other room uses.

`errors` has `Problem` and `FleetError`, the form of every message to a user. `checks` adds the id and the
source of the check that found a problem. `outcome` is the result of a command. `matching` compares values
with annotated types, and `suggest` corrects mistyped names. `processes`, `unix_http`, `source_files` and
`digests` wrap the standard library. `json_text` reads JSON of others, such as cdk.json, and
`encoding` writes requests to Triton and reads its answers. `extras` names
what to install for a missing package, and `alarm_condition` words alarms.
"""
