"""`fleet deliver`: build, verify and publish many models, each independently.

A build job runs `deliver`: the `steps` of each model in a `worker` process, which may hang or die, and
publications in parallel. `results` collects the results and sums up many runs. `diff` is `fleet diff`,
`pack` is `fleet pack`, and `verify` is `fleet verify`.
"""
