"""Plain Python about Triton models: facts, build, check, pack, publish, invoke. It imports no CDK."""
