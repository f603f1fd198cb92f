"""Delivery from GitHub: the role with which a workflow deploys a fleet.

`github_role` is the construct. `checks` checks its arguments.

Imports: arguments, fleet.
"""
