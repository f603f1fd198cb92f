"""The model repository in S3: the current and earlier artifacts of each name.

`manifest` is the list of names, and `model_record` an entry with its JSON. `s3` has
the client of publishers, `objects` reads and writes what is in S3, and `stored_manifest` replaces the
manifest only if it has not changed. `publish` checks and uploads artifacts (`upload`), and updates names.
`tested` lists what may be promoted. `history`, `rollback`, `promote`, `prune` and `check_endpoint` are
commands of `fleet`. `endpoints` describes the endpoints and Models of an account, and `alias` a name that
moves from one endpoint to the next. `places` reads and writes documents in a folder or in S3.
"""
