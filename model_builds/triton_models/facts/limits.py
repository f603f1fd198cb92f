"""Limits of AWS's services."""

PAYLOAD_LIMIT = 6291456
"""InvokeEndpoint's limit for a request, in bytes (API model of sagemaker-runtime, botocore 1.44.5)."""

LOAD_LIMIT_S = 60
"""Seconds after which SageMaker answers 429 to a request that waits for the load of its model."""

BUCKET_RULE = "a bucket's name has 3 to 63 lowercase letters, digits, dots and hyphens"
"""The rule of https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html, for errors."""
