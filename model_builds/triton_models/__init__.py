"""Plain Python about Triton models. It imports no CDK.

In the order of imports: `base` and `facts`; `declare`, what a model is (`spec` has its public names);
`artifact`, what is packed; `check`; `repository`, what is published; `client`; `load`, which
measures; `builds`; `deliver`, which builds, verifies and publishes many; and `cli`.
"""
