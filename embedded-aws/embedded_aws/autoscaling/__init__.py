"""Auto scaling of the variants of endpoints, without any state: alarms, decisions and schedules."""
