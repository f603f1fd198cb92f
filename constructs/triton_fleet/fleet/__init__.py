"""Whole fleets: the wiring of repository, builds, endpoint, scaling, alarms and dashboard.

`model_library` joins a model repository and what builds models for it; `multi_model_fleet` adds an endpoint
and everything that keeps it serving. `accepted_findings` accepts findings of cdk-nag that are right about a
resource of these two, each with its reason. `given_requests` checks the requests of a warm-up.
`github_role` is the role with which a workflow deploys a fleet.
"""
