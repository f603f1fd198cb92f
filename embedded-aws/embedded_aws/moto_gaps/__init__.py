"""Patches of moto, one module per service, for its differences from AWS.

Each module lists the gaps that it closes, and closes them when it is imported. Those of CloudFormation are in
`embedded_aws.cloudformation.stacks`.
"""

from __future__ import annotations

import os
from importlib import import_module

_SERVICES = (
    *(
        "application_autoscaling",
        "cloudwatch",
        "codebuild",
        "ecr",
        "events",
        "iam",
        "lambda_",
        "logs",
        "metrics",
    ),
    *("processing_jobs", "queues", "s3", "sagemaker", "service_quotas", "states", "states_map"),
)
_PROFILES = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE")


def close_gaps() -> None:
    """Patch moto in this process. Calling it again has no effect.

    moto creates the session in which it lists regions and services from the caller's AWS configuration, in
    several places and late, and fails if that names a profile that does not exist. It gets one without it.
    """
    kept = {name: os.environ.pop(name) for name in _PROFILES if name in os.environ}
    try:
        import boto3
        import moto.core.utils
        from moto.core.base_backend import AccountSpecificBackend

        from embedded_aws.moto_gaps import patch

        session = boto3.Session()
        # The first call caches the session.
        AccountSpecificBackend.get_session()
        patch.replace(moto.core.utils, Session=lambda: session)
        for service in _SERVICES:
            import_module(f"{__name__}.{service}")
    finally:
        os.environ.update(kept)
