"""Probes in an AWS account, deployed under a name of their own and removed again."""
