"""What lies in an artifact, and what it can run on."""
