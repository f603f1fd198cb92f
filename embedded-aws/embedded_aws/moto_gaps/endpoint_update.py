"""The update of an endpoint to another configuration: in steps, watched by alarms, with rollback.

It differs from AWS in two ways. Instances start at once, or as fast as a host starts them. Waits are
compressed, see `embedded_aws.clock`; DescribeEndpoint and the events show AWS's times.

SageMaker's reasons for a rollback are not documented; the wording here is ours. In the documentation's
example of an event the status is in capitals, unlike DescribeEndpoint's. Registries of other accounts are not
modelled: the digests, to which SageMaker resolves a tag once per creation or update, are ours. Read on
2026-11-21 and 2026-11-23:
https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeployedImage.html
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import Any

from moto.cloudwatch.models import cloudwatch_backends
from moto.core.utils import unix_time_millis, utcnow

from embedded_aws import clock
from embedded_aws.deployment import BAKING, Host, Step, steps
from embedded_aws.errors import LaunchError
from embedded_aws.moto_gaps.events import publish_event

# The interval, in seconds, at which the alarms are checked during waits.
_POLL_S = 0.02

_EVENT = "SageMaker Endpoint Deployment State Change"

_log = logging.getLogger(__name__)
_hosts: list[Host] = []


def hosts() -> tuple[Host, ...]:
    return tuple(_hosts)


def attach(host: Host) -> None:
    _hosts.append(host)


def detach(host: Host) -> None:
    if host in _hosts:
        _hosts.remove(host)


def end_instances(endpoint_name: str) -> None:
    for host in hosts():
        host.end(endpoint_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    config: str
    variants: Sequence[dict[str, Any]]
    data_capture: Mapping[str, Any] | None
    deployment: Mapping[str, Any]


class _UndoneError(Exception):
    """The reason to roll an update back."""


class EndpointUpdate:
    def __init__(self, backend: Any, endpoint: Any, wanted: Wanted) -> None:
        self._backend, self._endpoint, self._wanted = backend, endpoint, wanted
        self._before: list[dict[str, Any]] = endpoint.production_variants
        self._started = utcnow()
        endpoint.pending_deployment_summary = None
        self._plans = self._planned()
        configured = wanted.deployment.get("AutoRollbackConfiguration", {}).get("Alarms", ())
        self._alarms = [str(alarm["AlarmName"]) for alarm in configured]

    def start(self) -> None:
        """Start the update. Without a host and waits, it has ended on return."""
        self._endpoint.endpoint_status = "Updating"
        endpoint_changed(self._backend, self._endpoint, "UPDATING")
        self._endpoint.failure_reason = None
        if _hosts or any(step.wait_s for plan in self._plans for step in plan):
            threading.Thread(target=self._run, name="endpoint-update", daemon=True).start()
        else:
            self._run()

    def _planned(self) -> list[tuple[Step, ...]]:
        """Return the steps, each with one part per variant. A variant with fewer steps stays at its last."""
        former = {variant["VariantName"]: _count(variant) for variant in self._before}
        plans = [
            steps(
                self._wanted.deployment, before=former.get(variant["VariantName"], 0), after=_count(variant)
            )
            for variant in self._wanted.variants
        ]
        return [
            tuple(step or plan[-1] for step, plan in zip(row, plans, strict=True))
            for row in zip_longest(*plans)
        ]

    def _run(self) -> None:
        try:
            waited = 0.0
            for row in self._plans:
                self._show(row)
                if row is self._plans[0]:
                    self._launch()
                waited += max(step.wait_s for step in row)
                self._check_time(waited)
                self._bake(row)
                if self._gone:
                    end_instances(self._endpoint.endpoint_name)
                    return
        except _UndoneError as undone:
            self._roll_back(str(undone))
        except Exception as error:  # noqa: BLE001  the update must not stay in progress forever
            _log.exception("the update of the endpoint %s failed", self._endpoint.endpoint_name)
            self._roll_back(f"the embedded AWS failed: {error}")
        else:
            self._finish()

    def _launch(self) -> None:
        for host in hosts():
            try:
                host.launch(self._endpoint.endpoint_name, self._wanted.config)
            except LaunchError as error:
                raise _UndoneError(
                    "The primary container for production variant "
                    f"{self._wanted.variants[0]['VariantName']} did not pass the ping health check. {error}"
                ) from error

    def _check_time(self, waited: float) -> None:
        """Roll back if the waits alone exceed the time limit of the deployment."""
        for policy in ("BlueGreenUpdatePolicy", "RollingUpdatePolicy"):
            limit = self._wanted.deployment.get(policy, {}).get("MaximumExecutionTimeoutInSeconds")
            if limit is not None and waited > limit:
                msg = f"The deployment took longer than its {limit} seconds and was rolled back."
                raise _UndoneError(msg)

    def _bake(self, row: Sequence[Step]) -> None:
        """Wait for a step's time. While the step bakes, watch the alarms."""
        until = time.monotonic() + clock.current().here(max(step.wait_s for step in row))
        while not self._gone:
            if any(step.status == BAKING for step in row):
                self._check_alarms()
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, _POLL_S))

    def _check_alarms(self) -> None:
        alarms = cloudwatch_backends[self._backend.account_id][self._backend.region_name].alarms
        fired = [name for name in self._alarms if name in alarms and alarms[name].state_value == "ALARM"]
        if fired:
            msg = f"The deployment was rolled back: in ALARM during the baking period: {', '.join(fired)}"
            raise _UndoneError(msg)

    @property
    def _gone(self) -> bool:
        endpoint = self._endpoint
        return self._backend.endpoints.get(endpoint.endpoint_name) is not endpoint

    def _show(self, row: Sequence[Step]) -> None:
        now = utcnow()
        kept = {v["VariantName"]: step.kept for v, step in zip(self._wanted.variants, row, strict=True)}
        self._endpoint.production_variants = [
            {**variant, "CurrentInstanceCount": kept.get(variant["VariantName"], _count(variant))}
            for variant in self._before
        ]
        self._endpoint.pending_deployment_summary = {
            "EndpointConfigName": self._wanted.config,
            "StartTime": self._started,
            "ProductionVariants": [
                _pending(variant, step, since=now)
                for variant, step in zip(self._wanted.variants, row, strict=True)
            ],
        }
        self._touch(now)
        self._send_event("UPDATING")

    def _finish(self) -> None:
        """Set the target state. The status is set last, so that a waiting client finds the rest."""
        self._endpoint.endpoint_config_name = self._wanted.config
        self._endpoint.production_variants = list(self._wanted.variants)
        self._endpoint.data_capture_config = self._wanted.data_capture
        self._end()

    def _roll_back(self, reason: str) -> None:
        """Return all traffic to the old instances at once. RollbackMaximumBatchSize is ignored."""
        self._endpoint.endpoint_status = "RollingBack"
        endpoint_changed(self._backend, self._endpoint, "ROLLING_BACK")
        self._send_event("ROLLING_BACK")
        self._endpoint.production_variants = self._before
        self._endpoint.failure_reason = reason
        self._end()

    def _end(self) -> None:
        self._endpoint.pending_deployment_summary = None
        self._touch(utcnow())
        self._endpoint.endpoint_status = "InService"
        endpoint_changed(self._backend, self._endpoint, "IN_SERVICE")

    def _touch(self, now: datetime) -> None:
        self._endpoint.last_modified_time = now
        for host in hosts():
            host.refresh(self._endpoint.endpoint_name)

    def _send_event(self, status: str) -> None:
        pending = {"PendingDeploymentSummary": self._endpoint.pending_deployment_summary}
        _send(self._backend, self._endpoint, _EVENT, {**_detail(self._endpoint, status), **pending})


def _pending(variant: Mapping[str, Any], step: Step, *, since: datetime) -> dict[str, Any]:
    status = {"Status": step.status, "StatusMessage": step.message, "StartTime": since}
    return {**variant, "CurrentInstanceCount": step.active, "VariantStatus": [status]}


def _count(variant: Mapping[str, Any]) -> int:
    """Return the number of a variant's instances; 1 for a serverless one."""
    count: int = variant.get("DesiredInstanceCount", 1)
    return count


def endpoint_changed(backend: Any, endpoint: Any, status: str) -> None:
    """Send the event of an endpoint's new status. Returns before the event's targets are done."""
    _send(backend, endpoint, "SageMaker Endpoint State Change", _detail(endpoint, status))


def _send(backend: Any, endpoint: Any, detail_type: str, detail: Mapping[str, Any]) -> None:
    publish_event(
        source="aws.sagemaker",
        detail_type=detail_type,
        detail=_in_milliseconds(detail),
        resources=[endpoint.arn],
        account=backend.account_id,
        region=backend.region_name,
    )


def _detail(endpoint: Any, status: str) -> dict[str, Any]:
    return {
        "EndpointName": endpoint.endpoint_name,
        "EndpointArn": endpoint.arn,
        "EndpointConfigName": endpoint.endpoint_config_name,
        "ProductionVariants": endpoint.production_variants,
        "EndpointStatus": status,
        "CreationTime": endpoint.creation_time,
        "LastModifiedTime": endpoint.last_modified_time,
        "Tags": {tag["Key"]: tag["Value"] for tag in endpoint.tags},
    }


def _in_milliseconds(value: Any) -> Any:
    if isinstance(value, datetime):
        return int(unix_time_millis(value))
    if isinstance(value, Mapping):
        return {key: _in_milliseconds(each) for key, each in value.items()}
    return [_in_milliseconds(each) for each in value] if isinstance(value, list) else value


def with_images(backend: Any, config: Any, variants: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return variants with the images of their models, resolved now."""
    models = {each["VariantName"]: each.get("ModelName") for each in config.production_variants}
    now = utcnow()
    return [
        {**variant, "DeployedImages": _images(backend._models.get(models[variant["VariantName"]]), now)}
        for variant in variants
    ]


def _images(model: Any, now: datetime) -> list[dict[str, Any]]:
    containers = [model.primary_container, *(model.containers or ())] if model else []
    images = [str(each["Image"]) for each in containers if each and "Image" in each]
    return [
        {"SpecifiedImage": image, "ResolvedImage": _resolved(image), "ResolutionTime": now}
        for image in images
    ]


def _resolved(image: str) -> str:
    if "@sha256:" in image:
        return image
    folder, _, name = image.rpartition("/")
    repository = "/".join(part for part in (folder, name.split(":")[0]) if part)
    return f"{repository}@sha256:{hashlib.sha256(image.encode()).hexdigest()}"
