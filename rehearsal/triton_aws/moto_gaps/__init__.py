"""Patches, in this process, for what moto's services answer otherwise than AWS: one module per service.

Each module names the gaps of moto 5.2.5 that it closes. Those of CloudFormation are in
`triton_aws.cloudformation.stacks`.
"""

from __future__ import annotations


def close_gaps() -> None:
    """Patch moto in this process; a second time changes nothing."""
    # moto takes a second to import, which not every process needs to spend.
    from triton_aws.moto_gaps.session import without_profile

    with without_profile():
        from triton_aws.moto_gaps import (
            application_autoscaling,
            cloudtrail,
            cloudwatch,
            codebuild,
            codebuild_builds,
            codebuild_fleets,
            ecr,
            events,
            iam,
            lambda_,
            logs,
            processing_jobs,
            s3,
            sagemaker,
            service_quotas,
            session,
            states,
            states_map,
        )

        for service in (
            application_autoscaling,
            cloudtrail,
            cloudwatch,
            codebuild,
            codebuild_builds,
            codebuild_fleets,
            ecr,
            events,
            iam,
            lambda_,
            logs,
            processing_jobs,
            s3,
            sagemaker,
            service_quotas,
            session,
            states,
            states_map,
        ):
            service.install()
