"""Weights of a build job: a variable that a declaration reads, and an address that a build can fetch."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from triton_models.base.errors import Problem
from triton_models.base.suggest import did_you_mean
from triton_models.declare.weights import HubWeights, S3Weights, SeededWeights, weights_at

RULE = "build-weights"
# Read on 2026-11-21: what a variable may hold, and which characters stand for others in a policy.
SOURCES = (
    "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateProcessingJob.html",
    "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_resource.html",
)

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
# Set by the build job and by what runs it; another value would change something else than weights.
_TAKEN = ("FLEET_", "AWS_", "CODEBUILD_", "HF_", "PIP_")
# In a policy these stand for other characters, so a permission would reach further than one object.
_WILDCARDS = re.compile(r"[*?$]")
LONGEST = 256
"""Characters of a variable of a Processing job."""

_EXAMPLES = "s3://bucket/key of one object, or hf://owner/name@<full commit hash>"


def build_weights(
    weights: Mapping[str, str], *, read: Collection[str] | None, where: str
) -> Iterator[Problem]:
    """What is wrong with the weights of a build job.

    Args:
        weights: Addresses by environment variable.
        read: The variables that declarations read; None if they are not known here.
        where: What the problems are reported for.
    """
    for name, address in weights.items():
        problem = _variable(name, read, where=where)
        if problem is not None:
            yield problem
        yield from _address(name, address, where=where)


def _variable(name: str, read: Collection[str] | None, *, where: str) -> Problem | None:
    if not _VARIABLE.fullmatch(name) or name.startswith(_TAKEN):
        return Problem(
            what=f"the variable of weights is {name!r}",
            where=where,
            expected=f"capital letters, digits and underscores, beginning with none of {', '.join(_TAKEN)}",
            why="it becomes an environment variable of the build, next to those that the build needs itself",
            fix="give the name that the model's build.py reads, such as T5_WEIGHTS",
            rule=RULE,
        )
    if read is not None and name not in read:
        return Problem(
            what=f"no declaration reads {name}",
            where=where,
            expected=f"one of {', '.join(sorted(read))}" if read else "a variable that a build.py reads",
            why="it would be ignored, and the model built with other weights",
            fix=did_you_mean(name, sorted(read), otherwise="read it in the model's build.py with weights_at"),
            rule=RULE,
        )
    return None


def _address(name: str, address: str, *, where: str) -> Iterator[Problem]:
    weights = weights_at(address, otherwise=SeededWeights(seed=0))
    if not isinstance(weights, (HubWeights, S3Weights)):
        yield Problem(
            what=f"the weights of {name} are at {address!r}",
            where=where,
            expected=_EXAMPLES,
            why="a build runs on a machine that has none of your files",
            fix="upload the weights to S3 and give their URL",
            rule=RULE,
        )
        return
    if len(address) > LONGEST:
        yield Problem(
            what=f"the address of {name} has {len(address)} characters",
            where=where,
            expected=f"at most {LONGEST}",
            why=f"a Processing job limits a variable to {LONGEST} characters",
            fix="copy the object to a shorter key",
            rule=RULE,
        )
    if _WILDCARDS.search(address):
        yield Problem(
            what=f"the address {address!r} of {name} has one of * ? $ in it",
            where=where,
            expected=_EXAMPLES,
            why="the permission to read it would be one for other objects as well",
            fix="copy the object to a key without these characters",
            rule=RULE,
        )
    for mistake in weights.mistakes():
        yield Problem(
            what=f"{mistake.what}, the weights of {name}",
            where=where,
            expected=mistake.expected,
            why="the build would fail on it, minutes after it was started",
            fix=mistake.fix,
            rule=RULE,
        )
