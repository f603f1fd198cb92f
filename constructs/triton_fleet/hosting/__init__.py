"""What an endpoint is made of: instances, server, network, and how a new configuration takes over."""
