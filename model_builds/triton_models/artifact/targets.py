"""The targets of artifacts and endpoints.

A TensorRT plan loads only on the compute capability and in the TensorRT version it was compiled for. A Python
environment in an artifact loads only in the release's Python. The TensorRT version implies it, because
releases with equal TensorRT versions have equal Python versions. Everything else runs anywhere.

An artifact's build.json records its GPU, and for every plan, by its path, the GPU that compiled it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.facts.instances import GPUS, Gpu
from triton_models.facts.instances import gpu as find_gpu
from triton_models.facts.releases import Release, known_release
from triton_models.facts.releases import release as find_release
from triton_models.facts.tensorrt import AMPERE, AMPERE_PLUS, SAME_COMPUTE_CAPABILITY

UNKNOWN_TARGET = Check(id="unknown-target", source=FROM_ARGUMENTS)

ANY_HARDWARE, CPU = "any", "cpu"

_AMPERE = int(AMPERE.replace(".", ""))

_TEXT = re.compile(r"any|(?P<hardware>any|cpu|ampere\+|sm\d{2,3})-trt(?P<tensorrt>\d+(?:\.\d+){1,2})")
_VERSION_NUMBERS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactTarget:
    """The target of an artifact or an endpoint.

    Attributes:
        hardware: "sm86" for compute capability 8.6, "cpu" for none, "ampere+" for 8.0 and newer, or "any".
        tensorrt: The first three numbers of the release's TensorRT version; "" for any. For a release that is
            not in the table of releases, whose TensorRT is unknown, the release.
    """

    hardware: str = ANY_HARDWARE
    tensorrt: str = ""

    @classmethod
    def parse(cls, text: str) -> ArtifactTarget:
        """Parse a string such as "sm86-trt10.13.3"."""
        return _parsed(text)

    @classmethod
    def of(cls, *, release: Release, gpu: Gpu | None) -> ArtifactTarget:
        """Return the target of an endpoint whose instances have a GPU, or None."""
        hardware = CPU if gpu is None else _hardware(gpu)
        return cls(hardware=hardware, tensorrt=_version(release))

    def __str__(self) -> str:
        """Return the string for `parse`."""
        return f"{self.hardware}-trt{self.tensorrt}" if self.tensorrt else ANY_HARDWARE

    @property
    def width(self) -> int:
        """The rank by coverage: a target that covers more has a greater width."""
        if not self.tensorrt:
            return 3
        return {ANY_HARDWARE: 2, AMPERE_PLUS: 1}.get(self.hardware, 0)

    def on_gpu(self, gpu: Gpu) -> bool:
        """Return True if the hardware of this target includes a GPU."""
        return self.covers(ArtifactTarget(hardware=_hardware(gpu), tensorrt=self.tensorrt))

    def covers(self, other: ArtifactTarget) -> bool:
        """Return True if an artifact for this target runs everywhere an artifact for the other does."""
        if not self.tensorrt:
            return True
        if self.tensorrt != other.tensorrt:
            return False
        if self.hardware == AMPERE_PLUS and other.hardware.startswith("sm"):
            return int(other.hardware.removeprefix("sm")) >= _AMPERE
        return self.hardware in (ANY_HARDWARE, other.hardware)


ANY = ArtifactTarget()
"""The target of an artifact that runs anywhere."""


def built_target(*, release: str, gpu: str | None, cpu: bool) -> ArtifactTarget | None:
    """Return the target of the endpoint that `fleet build` builds for; None for a portable build."""
    if gpu is None and not cpu:
        return None
    return ArtifactTarget.of(release=find_release(release), gpu=find_gpu(gpu) if gpu else None)


def content_targets(build: Mapping[str, Any], plans: Sequence[str]) -> tuple[ArtifactTarget, ...]:
    """Return the targets that an artifact's content runs on; only `ANY` if it does not depend on one.

    Facts that the build did not record are not compared.
    """
    said = build.get("tensorrt")
    version = next(iter(plans), None) or (str(said) if said else "")
    gpu = GPUS.get(built_gpu(build) or "")
    release = known_release(str(build.get("release")))
    if version and gpu is not None:
        hardware = _compatible(build) or _hardware(gpu)
        # The image's own TensorRT counts as that of the table, by which endpoints are compared.
        tensorrt = _version(release) if release and version == said else _short(version)
        return (ArtifactTarget(hardware=hardware, tensorrt=tensorrt),)
    sources = build.get("sources")
    named = map(str, sources) if isinstance(sources, Mapping) else ()
    if release is not None and any(each.startswith("environment:") for each in named):
        return (ArtifactTarget(tensorrt=_version(release)),)
    return (ANY,)


def built_gpu(record: Mapping[str, Any]) -> str | None:
    """Return the GPU model that an artifact has plans for, by its build.json; None without one."""
    said = record.get("gpu")
    return said if isinstance(said, str) else None


def plan_gpu(record: Mapping[str, Any], path: str) -> str | None:
    """Return the GPU model that compiled the plan at a path, by its build.json; None if not recorded."""
    gpu = _plan(record, path).get("gpu")
    return str(gpu) if gpu else built_gpu(record)


def plan_profiles(record: Mapping[str, Any], path: str) -> int | None:
    """Return the number of profiles of the plan at a path; None if the build did not record the plan."""
    plan = _plan(record, path)
    count = plan.get("profiles", 1)
    return count if plan and isinstance(count, int) else None


def plan_runs_on(record: Mapping[str, Any], path: str, gpu: Gpu) -> bool:
    """Return True if the plan at a path also runs on a GPU other than the one that compiled it."""
    level = _plan(record, path).get("hardware")
    return runs_on(level, built=GPUS.get(plan_gpu(record, path) or ""), gpu=gpu)


def runs_on(level: str | None, *, built: Gpu | None, gpu: Gpu) -> bool:
    """Return True if a level of hardware compatibility, as trtexec spells it, includes another GPU."""
    if level == AMPERE_PLUS:
        return float(gpu.compute_capability) >= float(AMPERE)
    return (
        level == SAME_COMPUTE_CAPABILITY
        and built is not None
        and built.compute_capability == gpu.compute_capability
    )


def _plan(record: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    plans = record.get("plans")
    plan = plans.get(path) if isinstance(plans, Mapping) else None
    return plan if isinstance(plan, Mapping) else {}


def _compatible(build: Mapping[str, Any]) -> str | None:
    plans = build.get("plans")
    levels = {plan.get("hardware") for plan in plans.values()} if isinstance(plans, Mapping) else set()
    return AMPERE_PLUS if levels == {AMPERE_PLUS} else None


def _hardware(gpu: Gpu) -> str:
    return f"sm{gpu.compute_capability.replace('.', '')}"


def _version(release: Release) -> str:
    return _short(release.tensorrt) if release.is_listed else release.name


def _short(version: str) -> str:
    return ".".join(version.split(".")[:_VERSION_NUMBERS])


@lru_cache(maxsize=1024)
def _parsed(text: str) -> ArtifactTarget:
    match = _TEXT.fullmatch(text)
    if match is None:
        fix = "write sm86-trt10.13.3, cpu-trt10.13.3 or any; `fleet history` lists published targets"
        raise UNKNOWN_TARGET.error(what=f"{text!r} is not a target", where="the target", fix=fix)
    return ArtifactTarget(hardware=match["hardware"] or ANY_HARDWARE, tensorrt=match["tensorrt"] or "")
