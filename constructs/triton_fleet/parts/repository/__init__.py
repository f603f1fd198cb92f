"""The model repository: its bucket, who publishes to it, and which endpoints load what is published.

`model_repository` is the construct. `usage` records build jobs and endpoints as they are declared, and
`portability_checks` compares them; `checks` are those of bucket and prefix.
"""
