"""The real Triton server, started as the container starts it, with stand-ins for GPU backends."""
