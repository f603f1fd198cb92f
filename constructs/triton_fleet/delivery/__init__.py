"""Delivery from GitHub: the role with which a workflow deploys a fleet.

`github_role` is the construct.

Imports: arguments, fleet.
"""
