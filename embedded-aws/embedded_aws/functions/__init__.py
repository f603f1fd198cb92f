"""Runs the code of Lambda functions on this machine, each call in its own process."""
