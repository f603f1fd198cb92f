"""Builds, verifies and publishes many models, each on its own."""
