"""What an endpoint publishes: names, dimensions, units, and what the log says."""
