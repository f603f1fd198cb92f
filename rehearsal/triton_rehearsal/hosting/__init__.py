"""Real-time hosting of multi-model endpoints, as SageMaker does it."""
