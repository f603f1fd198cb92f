"""Auto scaling: as many instances as the load needs, and an alias that moves between endpoints.

`endpoint_scaling` joins targets (`target`, `tracking`, `metric_specification`), `steps`, `schedules` and
`suspended_scaling`; `values` renders numbers and times. `alias` names the endpoint of today. `checks` and
`capacity_checks` check them.

Imports: arguments, endpoint, functions, hosting, metrics.
"""
