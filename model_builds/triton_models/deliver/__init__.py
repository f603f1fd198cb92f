"""`fleet deliver`: build, verify and publish many models, each independently.

A build job runs `deliver`: the `steps` of each model in a `worker` process, which may hang or die, and a
`publisher` in parallel. `results` collects the results and sums up many runs, and `places` writes them to a
file or S3. `example_request` is what warms a model up. `diff` is `fleet diff`, `pack` is `fleet pack`,
and `verify` is `fleet verify`.
"""
