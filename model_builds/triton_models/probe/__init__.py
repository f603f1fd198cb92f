"""`fleet probe`: decides beliefs of the ledger on a GPU or in an account.

`gpu` and `account` hold the probes and how they run; `catalogue` lists all of them. A probe returns a
`verdict` per belief; a `transcript` records a run and can be published, without what `scrub` takes out.

Imports: artifact, base, builds, declare, deliver, facts, ledger, verify.
"""
