"""Tables of the machines that can build models: on demand, reserved, or for a single job."""
