"""The model repository: its bucket, who publishes to it, and which endpoints load what is published.

`model_repository` is the construct. `endpoint_fit` records build jobs and endpoints as they are declared, and
at synthesis refuses an endpoint that could not load what is built for it.
"""
