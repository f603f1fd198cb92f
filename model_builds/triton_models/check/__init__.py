"""Finds what Triton or SageMaker would refuse."""
