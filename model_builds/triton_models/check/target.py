"""The target of a check: release, GPU and kind of endpoint, as far as known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from triton_models.artifact.layout import AUTO_COMPLETE
from triton_models.artifact.pbtxt import COMPLETED_BY
from triton_models.artifact.targets import built_gpu
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.suggest import did_you_mean
from triton_models.facts.instances import GPUS, Gpu
from triton_models.facts.instances import gpu as gpu_named
from triton_models.facts.instances import instance_type as instance_type_named
from triton_models.facts.releases import Release, known_release
from triton_models.facts.releases import release as release_named
from triton_models.facts.tensorrt import TENSORRT_VERSION

UNKNOWN_ENDPOINT = Check(id="unknown-endpoint", source=FROM_ARGUMENTS)

LET_COMPLETE = f"serve it with {COMPLETED_BY} and pass --auto-complete to `fleet adopt` or `fleet check`"
"""The way to serve a model that relies on it, for fixes."""

MULTI_MODEL_ENDPOINT = "multi-model"
SINGLE_MODEL_ENDPOINT = "single-model"
ENDPOINTS = (MULTI_MODEL_ENDPOINT, SINGLE_MODEL_ENDPOINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTarget:
    """The environment that serves a model. Checks that need an unknown fact are skipped.

    Attributes:
        release: The Triton release; None for any release.
        gpu: The GPU of the machines; None if unknown, or without a GPU.
        gpu_count: Number of GPUs per machine; 0 without a GPU, None if unknown.
        endpoint: "multi-model" or "single-model" on SageMaker; None for a plain Triton server with a model
            repository.
        auto_complete: True if backends may complete a configuration, as is the server's default. The
            endpoints of this project disable it, which makes loading ten times faster.
        image_adds: The backends, agents and modules that its image adds to NVIDIA's.
    """

    release: Release | None = None
    gpu: Gpu | None = None
    gpu_count: int | None = None
    endpoint: str | None = None
    auto_complete: bool = True
    image_adds: frozenset[str] = frozenset()

    def with_record(self, record: Mapping[str, Any]) -> CheckTarget:
        """Return this target with missing values from a build.json.

        An unknown release, GPU or TensorRT in the record is ignored, because records of newer tools must not
        prevent other checks. The check "build-record" reports it, unless another one was given.

        An artifact that was built in the image of the release knows its TensorRT better than the table of
        releases.
        """
        release = self.release or known_release(str(record.get("release")))
        tensorrt = str(record.get("tensorrt"))
        if release and TENSORRT_VERSION.fullmatch(tensorrt) and record.get("release") == release.name:
            release = replace(release, tensorrt=tensorrt)
        gpu = GPUS.get(built_gpu(record) or "")
        completes = self.auto_complete or record.get(AUTO_COMPLETE) is True
        return replace(self, release=release, gpu=self.gpu or gpu, auto_complete=completes)


PLAIN = CheckTarget()
MULTI_MODEL = CheckTarget(endpoint=MULTI_MODEL_ENDPOINT, auto_complete=False)
SINGLE_MODEL = CheckTarget(endpoint=SINGLE_MODEL_ENDPOINT, auto_complete=False)


def target(
    *,
    release: str | None = None,
    gpu: str | None = None,
    instance_type: str | None = None,
    endpoint: str | None = None,
    auto_complete: bool = False,
    image_adds: Iterable[str] = (),
) -> CheckTarget:
    """Return a target by names, such as "25.09", "A10G" and "ml.g5.2xlarge", which determines the GPU.

    A plain Triton server, without an endpoint, completes configurations.
    """
    if endpoint is not None and endpoint not in ENDPOINTS:
        what = f"unknown kind of endpoint {endpoint!r}"
        why = "each kind of endpoint has its own limits"
        fix = did_you_mean(endpoint, ENDPOINTS, otherwise=f"use {' or '.join(ENDPOINTS)}, or omit it")
        raise UNKNOWN_ENDPOINT.error(what=what, where="the target of the check", why=why, fix=fix)
    instance = instance_type_named(instance_type) if instance_type else None
    named = gpu_named(gpu) if gpu else None
    return CheckTarget(
        release=release_named(release) if release else None,
        gpu=instance.gpu if instance else named,
        gpu_count=instance.gpu_count if instance else None,
        endpoint=endpoint,
        auto_complete=auto_complete or endpoint is None,
        image_adds=frozenset(image_adds),
    )
