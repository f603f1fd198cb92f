"""Auto scaling: as many instances as the load needs, and an alias that moves between endpoints.

`endpoint_scaling` joins targets (`target`, `tracking`), `steps` and `schedules`. `alias` names the endpoint
of today.
"""
