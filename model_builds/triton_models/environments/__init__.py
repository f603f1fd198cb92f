"""Python packages and environments that an artifact carries."""
