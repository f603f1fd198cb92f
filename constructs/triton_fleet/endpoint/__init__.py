"""The endpoints: many models behind one name, one model in several versions, or an imported endpoint.

`multi_model` and `single_model` are the two constructs, and `base` is their base class; `shared` holds the
arguments that both take. `imported` is an endpoint that something else has created. `execution_role` is what
the instances may do. `sequence_advice` warns where sequence batching needs a single instance, and
`instance_checks` checks instance types.

`hosting` has the parts of an endpoint, and `functions` the custom resources that a deployment waits for.
"""
