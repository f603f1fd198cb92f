"""`fleet deliver`: build, verify and publish many models, each independently.

A build job runs `deliver`: the `steps` of each model in a `worker` process, which may hang or die, and a
`publisher` in parallel. `record` and `results` collect the results, `places` writes them to a file or S3, and
`summary` sums up many runs. `example_request` is what warms a model up. `diff` is `fleet diff`, and `pack`
`fleet pack`.

Imports: artifact, base, builds, check, client, declare, facts, pack, repository, verify.
"""
