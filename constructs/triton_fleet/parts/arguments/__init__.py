"""The arguments of constructs: their types and values, and all mistakes in one error.

`typed` compares each argument with its annotation. `late` has the problems that only the synthesis finds, and
`service_model` those of resources; `uncaught` shows problems that an app does not catch.
`tokens` finds values that are known only at deployment. `checks` are those that several packages need.
"""
