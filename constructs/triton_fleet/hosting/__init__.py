"""The parts of an endpoint: instances, server, network, and how a new configuration takes over."""
