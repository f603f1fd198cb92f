"""Benchmarks of claims about speed, against what a user would do instead, within one run."""
