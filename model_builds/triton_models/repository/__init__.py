"""The model repository in S3: the current and earlier artifacts of each name.

`manifest` is the list of names. `stored_manifest` is its copy in S3, replaced only if it has not changed.
`publish` uploads artifacts (`local`, `presence`, `upload`) with their requests (`documents`), and
updates names. `history`, `rollback`, `prune` and `check_endpoint` are commands of `fleet`. `published` and
`verified` support `history`, and `serving` and `endpoints` describe deployed endpoints.

Imports: artifact, base, check, declare, facts, pack.
"""
