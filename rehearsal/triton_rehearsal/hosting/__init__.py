"""Hosting of endpoints, as SageMaker does it."""
