"""Probes: what decides a belief of the ledger, on a machine with a GPU or in an AWS account.

A probe gives a verdict on each belief that it decides: true, false or undecided, with evidence. A run leaves
a transcript, from which account ids, names and ARNs are scrubbed. A transcript in docs/transcripts/ raises
the grades of its beliefs in the documentation, and tests replay what it observed.
"""
