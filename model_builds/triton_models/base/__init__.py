"""Errors, checks and small tools that every other package uses.

`errors` has `Problem` and `FleetError`, the form of every message to a user. `checks` adds the id and the
source of the check that found a problem. `outcome` is the result of a command. `matching` compares values
with annotated types, and `suggest` corrects mistyped names. `processes`, `unix_http` and `files`
wrap the standard library, and `tables` prints text in columns. `protobuf` reads
a message's fields without its schema. `json_text` reads JSON of others, such as cdk.json, and `encoding`
writes requests to Triton and reads its answers. `extras` names what to install for a missing package, and
`alarm_condition` words alarms.
"""
