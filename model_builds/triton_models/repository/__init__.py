"""The model repository in S3: the current and earlier artifacts of each name.

`manifest` is the list of names. `stored_manifest` is its copy in S3, replaced only if it has not changed.
`publish` checks and uploads artifacts (`upload`) with their requests (`documents`), and updates names.
`history`, `rollback`, `promote`, `prune` and `check_endpoint` are commands of `fleet`. `serving` describes
the endpoints and Models of an account.
"""
