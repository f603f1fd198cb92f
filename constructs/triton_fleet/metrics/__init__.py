"""The metrics of an endpoint: names, dimensions, units, and what the log says."""
