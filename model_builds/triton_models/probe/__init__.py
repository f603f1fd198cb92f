"""`fleet probe`: decides beliefs of the ledger on a GPU or in an account.

`gpu` and `account` contain the probes and their runners; `catalogue` lists all probes. A probe returns a
`verdict` per belief. A `transcript` records a run; `scrub` removes private data, so it can be published.

Imports: artifact, base, builds, declare, deliver, facts, ledger, verify.
"""
