"""Sizes of fleets: which instance types, how many, at what cost, and how many requests wait for a load.

A plan simulates the requests of a fleet with the policies of a rehearsal. `policy` has what both share.
"""
