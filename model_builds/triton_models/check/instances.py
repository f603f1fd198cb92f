"""Checks of instance groups.

They follow NormalizeInstanceGroup and ValidateInstanceGroup of Triton core (src/model_config_utils.cc,
release 24.10, read 2026-11-21). The number of GPUs follows from the instance type, if that is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from triton_models.base.errors import Problem
from triton_models.check.subject import ArtifactCheck, Subject
from triton_models.check.target import MULTI_MODEL_ENDPOINT
from triton_models.config.pbtxt import schema

_SOURCE = "2026-11-21: Triton core 24.10, src/model_config_utils.cc"

# Like std::stoi, which reads a leading number and ignores the rest.
_INDEX = re.compile(r"\s*([+-]?[0-9]+)")
_MAX_INDEX = 2**31 - 1

# The types that AWS lists for multi-model endpoints have one; the constructs refuse others
# (`multi-model-one-gpu`).
# https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-support.html, read 2026-11-21.
_MULTI_MODEL_GPUS = 1


def instance_kind(subject: Subject) -> Iterator[Problem]:
    """Check that groups have a valid kind, and name GPUs only if they run on GPUs."""
    kinds = schema().ModelInstanceGroup.Kind
    named = kinds.DESCRIPTOR.values_by_number
    for model, config in subject.served():
        for number, group in enumerate(config.instance_group):
            where = f"instance_group {number}"
            if group.kind not in named:
                yield subject.refuse(
                    model,
                    where,
                    f"an instance_group of the kind {group.kind}",
                    expected=f"one of {', '.join(kinds.keys())}",
                    fix="remove kind, so that the server chooses",
                )
            elif group.gpus and named[group.kind].name in {"KIND_CPU", "KIND_MODEL"}:
                yield subject.refuse(
                    model,
                    where,
                    f"{named[group.kind].name} with gpus {list(group.gpus)}",
                    expected="gpus only with KIND_GPU, or without a kind",
                    fix="remove gpus, or use KIND_GPU",
                )
            elif any(gpu < 0 for gpu in group.gpus):
                yield subject.refuse(
                    model,
                    where,
                    f"gpus {list(group.gpus)}",
                    expected="numbers of 0 or more",
                    fix="remove gpus: the server then uses every GPU",
                )


def instance_gpu(subject: Subject) -> Iterator[Problem]:
    """Check that the machine has the GPUs that a group names or needs."""
    count = subject.target.gpu_count
    if count is None and subject.target.endpoint == MULTI_MODEL_ENDPOINT:
        count = _MULTI_MODEL_GPUS
    if count is None:
        return
    needs_gpu = schema().ModelInstanceGroup.KIND_GPU
    for model, config in subject.served():
        for number, group in enumerate(config.instance_group):
            absent = [gpu for gpu in group.gpus if gpu >= count]
            if absent or (group.kind == needs_gpu and not count):
                named = f"gpus {list(group.gpus)}" if absent else "KIND_GPU"
                has = f"{count} GPU{'s' * (count != 1)}" if count else "no GPU"
                yield subject.refuse(
                    model,
                    f"instance_group {number}",
                    f"{named} on instances with {has}",
                    expected=f"gpus from 0 to {count - 1}" if count else "KIND_CPU, or no kind",
                    fix="remove gpus: the server then uses every GPU" if count else "remove kind and gpus",
                )


def instance_profile(subject: Subject) -> Iterator[Problem]:
    """Check that optimization profiles are numbers, and only used with TensorRT."""
    for model, config in subject.served():
        for number, group in enumerate(config.instance_group):
            wrong = [profile for profile in group.profile if not _is_index(profile)]
            known = bool(model.backend.name)  # otherwise another check reports it
            foreign = bool(group.profile) and known and model.backend.platform != "tensorrt_plan"
            if foreign or wrong:
                yield subject.refuse(
                    model,
                    f"instance_group {number}: profile",
                    f"profile {list(group.profile)} for the backend {model.backend.name!r}"
                    if foreign
                    else f"profile {wrong[0]!r}",
                    expected="the number of a TensorRT profile, 0 or more, in quotes",
                    fix="remove profile" if foreign else "use the number, such as profile: [ '0' ]",
                )


def _is_index(profile: str) -> bool:
    match = _INDEX.match(profile)
    return match is not None and 0 <= int(match[1]) <= _MAX_INDEX


CHECKS = (
    ArtifactCheck(id="instance-kind", source=_SOURCE, find=instance_kind),
    ArtifactCheck(id="instance-gpu", source=_SOURCE, find=instance_gpu),
    ArtifactCheck(id="instance-profile", source=_SOURCE, find=instance_profile),
)
