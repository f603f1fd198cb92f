"""Monitoring: alarms, dashboard, and a new fleet before it gets all traffic."""
