"""Patches of moto, one module per service, for its differences from AWS.

Each module lists the gaps that it closes. Those of CloudFormation are in
`embedded_aws.cloudformation.stacks`.
"""

from __future__ import annotations

from importlib import import_module

_SERVICES = (
    *("application_autoscaling", "cloudtrail", "cloudwatch", "codebuild", "codebuild_builds"),
    *(
        "codebuild_fleets",
        "ecr",
        "events",
        "iam",
        "lambda_",
        "log_keys",
        "logs",
        "metrics",
        "processing_jobs",
        "s3",
        "sagemaker",
        "scaling_lists",
    ),
    *("service_quotas", "session", "states", "states_map", "sts"),
)


def close_gaps() -> None:
    """Patch moto in this process. Calling it again has no effect."""
    # moto is slow to import.
    from embedded_aws.moto_gaps.session import without_profile

    with without_profile():
        for service in _SERVICES:
            import_module(f"{__name__}.{service}").install()
