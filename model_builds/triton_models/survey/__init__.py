"""Checks of thousands of declarations during a synthesis.

`survey` reads them and caches the results without problems, and `servable` finds those that no endpoint of a
release could serve.

Imports: base, declare, environments, facts.
"""
