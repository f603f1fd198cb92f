"""Checks of thousands of declarations during a synthesis.

`survey` reads them in separate processes, `servable` finds those that no endpoint of a release could serve,
and `result_cache` caches the results without problems.

Imports: artifact, base, builds, declare, facts.
"""
