"""The service quotas that a fleet needs.

Sources, read 2026-11-22:

* https://docs.aws.amazon.com/general/latest/gr/sagemaker.md: SageMaker's quotas, one name per instance type.
* https://docs.aws.amazon.com/codebuild/latest/userguide/limits.html: CodeBuild's quotas. Their codes are from
  outputs of `aws service-quotas list-service-quotas` published by others. New accounts have 0 or 1 of each.
* Outputs of CreateEndpoint published by others: "The account-level service limit 'Number of instances across
  active endpoints' is 3 Instances, with current utilization of 3 Instances". The codes of the totals are from
  public lists of quotas, read 2026-11-25.
* https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-blue-green.html: an update starts a
  fleet of the same size next to the old one. Changing the release or the instance type does so too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from triton_models.facts.build_machines import (
    BUILD_MACHINES,
    CPU_BUILD_MACHINE,
    automatic_machine,
    processing_type,
)
from triton_models.facts.instances import InstanceType

DEFAULT_MAX_CAPACITY = 4
"""The default maximum capacity of the app in this repository."""

MACHINES = ("automatic", "on-demand", "processing-job", "none")

_SMALL, _LARGE, _GPU_SMALL = "L-9D07B6EF", "L-4DDC4A99", "L-F1FE1B52"

ENDPOINT_TOTAL = "Number of instances across active endpoints"
PROCESSING_TOTAL = "Number of instances across all processing jobs"
"""SageMaker's quotas of the account and region, whatever the instance type."""

_ENDPOINTS, _PROCESSING = "L-7A3DF611", "L-F311B08F"

FLEETS = 2
"""The number of full-size fleets that run in parallel during an update or a replacement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A quota that a part of the fleet needs, with the lowest sufficient value, and its code if known."""

    service: str
    name: str
    least: float
    what: str
    code: str | None = None


def needs(
    instance: InstanceType,
    *,
    region: str,
    instances: int = 1,
    builds: int = 1,
    machine: str = "automatic",
    build_type: str | None = None,
) -> tuple[Need, ...]:
    """Return the quotas that a fleet on this instance type needs.

    The machine is one of MACHINES: "automatic" is the default choice of `ModelBuildProject`. Processing jobs
    run on `build_type`, by default the endpoint's, or the smallest other type with the same GPU.
    """
    endpoint = Need(
        service="sagemaker",
        name=endpoint_quota(instance.name),
        least=FLEETS * instances,
        what=f"an endpoint of up to {instances} {instance.name}, and as many that take over in an update",
    )
    total = replace(endpoint, name=ENDPOINT_TOTAL, code=_ENDPOINTS)
    return endpoint, total, *_build_needs(instance, region, builds, machine, build_type)


def _build_needs(
    instance: InstanceType, region: str, builds: int, machine: str, build_type: str | None
) -> tuple[Need, ...]:
    what = "a build" if builds == 1 else f"{builds} builds at a time"
    if machine == "none":
        return ()
    if instance.gpu is None:
        what = f"{what} on CodeBuild's {CPU_BUILD_MACHINE.compute_type}"
        return (_codebuild("Linux/Large", _LARGE, builds, what),)
    if machine == "automatic":
        chosen = automatic_machine(instance, region)
        if chosen is None:
            return ()
        machine = "on-demand" if chosen == "on demand" else "processing-job"
    # In a run of several builds, the first and the last step are separate small builds.
    steps = _codebuild("Linux/Small", _SMALL, 1, "the steps of a run before and after its builds")
    if machine == "on-demand":
        what = f"{what} on CodeBuild's {' or '.join(BUILD_MACHINES)}"
        return _codebuild("Linux GPU Small", _GPU_SMALL, builds, what), *([steps] if builds > 1 else [])
    name = build_type or processing_type(instance) or instance.name
    jobs = Need(
        service="sagemaker",
        name=processing_quota(name),
        least=builds,
        what=f"{what} in {'a job' if builds == 1 else 'jobs'} on {name}",
    )
    return (
        jobs,
        replace(jobs, name=PROCESSING_TOTAL, code=_PROCESSING, what=f"{jobs.what}; other jobs count as well"),
        _codebuild("Linux/Small", _SMALL, builds, f"{what}: a small build starts each job, and waits"),
    )


def quota_codes(*, gpu: bool, on_demand: bool, small: bool) -> list[str]:
    """Return the codes of the CodeBuild quotas that builds need, whatever their number.

    On demand are CodeBuild's machines, unlike Processing jobs and reserved ones. Small builds are the steps
    of a run, or the one that starts a job.
    """
    codes = [_SMALL] if small else []
    return [*codes, _GPU_SMALL if gpu else _LARGE] if on_demand else codes


def endpoint_quota(instance_type: str) -> str:
    """Return the name of SageMaker's quota for endpoints on an instance type."""
    return f"{instance_type} for endpoint usage"


def processing_quota(instance_type: str) -> str:
    """Return the name of SageMaker's quota for Processing jobs on an instance type."""
    return f"{instance_type} for processing job usage"


def _codebuild(environment: str, code: str, least: int, what: str) -> Need:
    name = f"Concurrently running builds for {environment} environment"
    return Need(service="codebuild", name=name, least=least, what=what, code=code)
