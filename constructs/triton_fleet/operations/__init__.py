"""The operation of an endpoint: alarms, dashboard, and a new fleet before it gets all traffic.

- `alarms`: the alarms of `alarm_declarations` and `queue_alarms`, with `thresholds` and `cpu_runbooks`.
- `alarm_metrics`: the metrics of alarms.
- `dashboard`: the page, from `charts`, `queue_charts` and `cost`.
- `rollback`, `warm_up`: the alarms that undo an update, and the requests that load models on a new fleet.
- `scaling`: as many instances as the load needs, and the alias that moves between endpoints.
- `notifications`: the topic that sends alarms to an address.
- `budget`, `log_encryption`: a limit per month, and a key for log groups and functions.
- `checks`: the checks of all of these.
"""
