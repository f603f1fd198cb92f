"""Thousands of declarations judged during a synthesis.

`survey` reads them in processes of their own, `servable` finds what no endpoint of a release could serve,
and `found_good` remembers the ones without a problem.

Imports: artifact, base, builds, declare, facts.
"""
