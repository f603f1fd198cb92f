"""Lambda functions that run while something is deployed, as custom resources.

`endpoint_start` makes what an endpoint needs before it starts. `artifact_ready` waits for artifacts,
`names_ready` for models of another target, and `deployment_build` starts a build and waits for it. Each is an
`inline_function`: its code is a file of `code`, which the template carries.
"""
