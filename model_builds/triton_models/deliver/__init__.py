"""`fleet deliver`: many models built, verified and published, each on its own.

`deliver` is what a build job runs: `steps` in a `worker` process, which may hang or die, and a `publisher`
next to it. `record` and `results` keep what came out, `places` writes it to a file or S3, `summary` sums up
many runs. `diff` is `fleet diff`.

Imports: artifact, base, builds, check, declare, facts, pack, repository, verify.
"""
