"""The operation of an endpoint: alarms, dashboard, and a new fleet before it gets all traffic.

- `alarms`: the alarms of `alarm_declarations`, with `thresholds`.
- `dashboard`: the page, from `charts`.
- `rollback`, `warm_up`: the alarms that undo an update, and the requests that load models on a new fleet.
- `scaling`: as many instances as the load needs, and the alias that moves between endpoints.
- `notifications`: the topic that sends alarms to an address.
- `budget`, `log_encryption`: a limit per month, and a key for log groups and functions.
"""
