"""An AWS in your own process, for tests: stacks with custom resources, functions, builds and endpoints."""

from embedded_aws.builds import BuildRecord
from embedded_aws.clock import current as current_clock
from embedded_aws.door import BoundedThreads, refusal_of_pages
from embedded_aws.embedded import EmbeddedAws, MissingResource
from embedded_aws.errors import EmbeddedAwsError, LaunchError, MotoChangedError, PortError, StackNotFoundError

__all__ = [
    "BoundedThreads",
    "BuildRecord",
    "EmbeddedAws",
    "EmbeddedAwsError",
    "LaunchError",
    "MissingResource",
    "MotoChangedError",
    "PortError",
    "StackNotFoundError",
    "current_clock",
    "refusal_of_pages",
]
