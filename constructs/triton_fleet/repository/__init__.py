"""The model repository: its bucket, who publishes to it, and which endpoints load what is published.

`usage` records build jobs and endpoints as they are declared; `portability_checks` compares them.
"""
