"""Runs builds and Processing jobs on this machine."""
