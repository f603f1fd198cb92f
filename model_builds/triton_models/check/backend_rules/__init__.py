"""The rules by which Triton's backends accept a configuration, ported whole, one module per backend.

`fleet check` and the rehearsal's stand-ins call the same functions. A stand-in runs inside the server's
Python stub, which gets this folder as the package `backend_rules`: modules here import each other
relatively, and nothing else but the standard library.

A configuration is a mapping in the form in which Triton passes `model_config` to Python models: names as in
config.pbtxt, enumerations as strings, fields without a value present with their default.
"""
