"""Runs the code of Lambda functions on this machine, each call in a process of its own."""
