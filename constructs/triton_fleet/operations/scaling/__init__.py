"""Auto scaling: as many instances as the load needs, and an alias that moves between endpoints.

`endpoint_scaling` joins targets (`target`, `tracking`, `metric_specification`), `steps` and `schedules`, and
`checks` checks them. `alias` names the endpoint of today.
"""
