"""Lambda functions that run while something is deployed, as custom resources.

`around_endpoint` makes what an endpoint needs before it starts, and checks what has become of its change.
`artifact_ready` waits for artifacts, and `deployment_build` starts a build and waits for it. Each is an
`inline_function`: its code is a file of `code`, which the template carries.
"""
