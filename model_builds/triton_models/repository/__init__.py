"""The model repository in S3: which artifact each name stands for, now and before.

`manifest` is the list of names, `stored_manifest` its copy in S3, replaced only if it has not changed.
`publish` uploads artifacts (`local`, `presence`, `upload`, `sbom`) and moves names. `published` and
`verified` serve `history`; `rollback` and `prune` are verbs; `check_endpoint` is `fleet check-endpoint`,
with `serving` and `endpoints` for what is deployed.

Imports: artifact, base, check, facts, pack.
"""
