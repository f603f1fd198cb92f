"""Tables of the machines that can build models: by the minute, reserved, or for the length of one job."""
