"""The size limit of a request."""

PAYLOAD_LIMIT = 6291456
"""InvokeEndpoint's limit for a request, in bytes (API model of sagemaker-runtime, botocore 1.44.5)."""
