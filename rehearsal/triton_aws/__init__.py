"""An AWS in your own process, for tests: stacks with custom resources, functions, builds and endpoints."""

from triton_aws.embedded import ACCOUNT, EmbeddedAws, MissingResource
from triton_aws.errors import EmbeddedAwsError, LaunchError, MotoChangedError, PortError, StackNotFoundError

__all__ = [
    "ACCOUNT",
    "EmbeddedAws",
    "EmbeddedAwsError",
    "LaunchError",
    "MissingResource",
    "MotoChangedError",
    "PortError",
    "StackNotFoundError",
]
