"""Thousands of declarations checked during a synthesis.

`survey` reads them in processes of their own, `servable` finds what no endpoint of a release could serve,
and `result_cache` caches those without a problem.

Imports: artifact, base, builds, declare, facts.
"""
