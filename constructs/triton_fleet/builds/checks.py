"""Checks of what builds are given: weights to fetch, and the division of a run."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from triton_fleet.arguments.checks import number_range
from triton_fleet.arguments.tokens import known
from triton_fleet.builds.commands import ENVIRONMENT
from triton_models.base.checks import Check
from triton_models.base.errors import Problem
from triton_models.base.suggest import did_you_mean
from triton_models.declare.weights import HubWeights, RandomWeights, S3Weights, weights_at

# What a variable may hold, and which characters stand for others in a policy.
BUILD_WEIGHTS = Check(
    id="build-weights",
    source=(
        "2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateProcessingJob.html"
        " https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_resource.html"
    ),
)
"""Weights of a build job: a variable that a declaration reads, and an address that a build can fetch."""

BUILD_ENVIRONMENT = Check(
    id="build-environment",
    source="2026-11-23: https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-env-vars.html"
    " https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateProcessingJob.html"
    " https://docs.aws.amazon.com/codebuild/latest/userguide/use-proxy-server.html",
)
"""Further environment variables of a build: none that the build sets, no password, and a way past a proxy."""

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
# Set by the build job and by what runs it; another value would change something else than weights.
_TAKEN = ("FLEET_", "AWS_", "CODEBUILD_", "HF_", "PIP_")
# In a policy these stand for other characters, so a permission would reach further than one object.
_PREFIX = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/(.*/)?")
_WILDCARDS = re.compile(r"[*?$]")
LONGEST_WEIGHTS = 256
"""Characters of a variable of a Processing job."""
_EXAMPLES = "s3://bucket/key, s3://bucket/prefix/, or hf://owner/name@<full commit hash>"


def build_weights(
    weights: Mapping[str, str], *, read: Collection[str] | None, where: str
) -> Iterator[Problem]:
    """Yield the problems with the weights of a build job.

    Args:
        weights: Addresses by environment variable.
        read: The variables that declarations read; None if they are not known here.
        where: The place that the problems name.
    """
    for name, address in weights.items():
        yield from _weights_variable(name, read, where=where)
        yield from _weights_address(name, address, where=where)


def weights_uploaded(elsewhere: Iterable[str], *, where: str) -> Iterator[Problem]:
    """Yield a problem for each file of weights that a declaration names and that no build job has.

    Args:
        elsewhere: The paths outside the folder that is uploaded.
        where: The place that the problems name.
    """
    for path in elsewhere:
        kept = f"LocalWeights(path=str(Path(__file__).with_name({Path(path).name!r})))"
        yield BUILD_WEIGHTS.problem(
            what=f"the weights are at {path!r}",
            where=where,
            expected=f"{_EXAMPLES}, or a file next to build.py",
            why="a build gets only the files of the uploaded folder",
            fix=f"upload it to S3 and give its URL, or keep a small file next to build.py: {kept}",
        )


def weights_prefixes(prefixes: Iterable[str], *, where: str) -> Iterator[Problem]:
    """Yield a problem for each invalid prefix of weights.

    Args:
        prefixes: The prefixes under which declarations may name weights.
        where: The place that the problems name.
    """
    for address in prefixes:
        if not _PREFIX.fullmatch(address) or _WILDCARDS.search(address):
            yield BUILD_WEIGHTS.problem(
                what=f"the prefix {address!r}",
                where=where,
                expected="s3://bucket/prefix/, with a slash at the end and without * ? $",
                why="it becomes a permission to read the objects under it",
                fix="write the folder that holds the weights",
            )


def weights_unreadable(
    objects: Iterable[str], *, weights: Collection[str], prefixes: Collection[str], where: str
) -> Iterator[Problem]:
    """Yield a problem for each declared address in S3 that a build may not read.

    Args:
        objects: The addresses that a declaration names.
        weights: The addresses that a build is given.
        prefixes: The prefixes that it may read.
        where: The place that the problems name.
    """
    for address in dict.fromkeys(objects):
        if address in weights or address.startswith(tuple(prefixes)):
            continue
        folder = address[: address.rstrip("/").rindex("/") + 1]
        yield BUILD_WEIGHTS.problem(
            what=f"the weights are at {address!r}, which builds may not read",
            where=where,
            expected="an address under a prefix of weights_from",
            why="a declaration gives no permission: the build would fail with AccessDenied",
            fix=f"add {folder!r} to weights_from, or give the address as a variable in weights",
        )


# Besides the variables of the build job itself.
_SET_BY_BUILDS = ("FLEET_", "AWS_", "CODEBUILD_", *ENVIRONMENT)
_PASSWORD = re.compile(r"//[^/@\s]+:[^/@\s]+@")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_INDEXES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "HF_ENDPOINT")
_PORTS = {"http": 80, "https": 443}
# The addresses at which a build in CodeBuild, or in a Processing job, gets its credentials.
_PAST_PROXY = ("169.254.169.254", "169.254.170.2")
_ANY_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def build_environment(
    variables: Mapping[str, str], *, weights: Collection[str], where: str
) -> Iterator[Problem]:
    """Yield the problems with further environment variables of a build job.

    Args:
        variables: The values by name.
        weights: The variables of weights.
        where: The place that the problems name.
    """
    for name, value in variables.items():
        if not _ANY_VARIABLE.fullmatch(name) or name.startswith(_SET_BY_BUILDS) or name in weights:
            yield BUILD_ENVIRONMENT.problem(
                what=f"the variable {name!r}",
                where=where,
                expected="letters, digits and underscores, and none of those that the build sets: "
                f"{', '.join(_SET_BY_BUILDS)} and the variables of weights",
                why="the build would work with another value than its own",
                fix="use another name, such as PIP_INDEX_URL",
            )
        if _PASSWORD.search(value):
            yield BUILD_ENVIRONMENT.problem(
                what=f"the value of {name} contains a password",
                where=where,
                expected="an address without one",
                why="templates, consoles and logs show variables",
                fix="let the index or the proxy admit the VPC, or a role, instead of a password",
            )
        elif len(value) > LONGEST_WEIGHTS:
            yield BUILD_ENVIRONMENT.problem(
                what=f"the value of {name} has {len(value)} characters",
                where=where,
                expected=f"at most {LONGEST_WEIGHTS}",
                why="a Processing job refuses longer variables",
                fix="shorten it",
            )
    yield from _proxy_without_exceptions(variables, where=where)
    yield from _without_port(variables, where=where)


def outgoing_ports(variables: Mapping[str, str]) -> list[int]:
    """Return the ports at which a build reaches the proxies and indexes of its environment variables."""
    return sorted({port for _, _, port in _addresses(variables) if port is not None})


def _addresses(variables: Mapping[str, str]) -> Iterator[tuple[str, str, int | None]]:
    """Yield name, address and port of each proxy and index; None without a valid port."""
    for name in (*_PROXIES, *_INDEXES):
        for address in (known(variables.get(name)) or "").split():
            parts = urlsplit(address if "://" in address else f"http://{address}")
            try:
                port = parts.port
            except ValueError:
                yield name, address, None
                continue
            yield name, address, port or (None if name in _PROXIES else _PORTS.get(parts.scheme))


def _without_port(variables: Mapping[str, str], *, where: str) -> Iterator[Problem]:
    for name, address, port in _addresses(variables):
        if port is None:
            yield BUILD_ENVIRONMENT.problem(
                what=f"{name} is {address!r}, without a valid port",
                where=where,
                expected="an address such as http://proxy.example.com:3128",
                why="curl would take port 1080 of a proxy, and pip that of the scheme",
                fix="add the port",
            )


BUILD_NETWORK = Check(
    id="build-network",
    source="2026-11-23: https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-endpoints-s3.html",
)
"""Builds in a VPC reach all of S3 that they need."""


def s3_of_builds(*, narrowed: bool, where: str) -> Iterator[Problem]:
    """Yield the problem with the way of builds to S3.

    Args:
        narrowed: True if the network creates the VPC endpoint for S3, whose policy lets models be read.
        where: The place that the problem names.
    """
    if narrowed:
        yield BUILD_NETWORK.problem(
            what="the network creates the VPC endpoint for S3",
            where=where,
            expected="VpcService.S3 among existing_vpc_endpoints",
            why="that endpoint lets models be read: builds also write, and read sources and weights",
            fix="give builds a network whose S3 endpoint exists, or one with a NAT gateway",
        )


def _proxy_without_exceptions(variables: Mapping[str, str], *, where: str) -> Iterator[Problem]:
    listed = {
        each.strip() for name in ("NO_PROXY", "no_proxy") for each in variables.get(name, "").split(",")
    }
    absent = [each for each in _PAST_PROXY if each not in listed]
    if absent and variables.keys() & {*_PROXIES}:
        yield BUILD_ENVIRONMENT.problem(
            what=f"a proxy without {', '.join(absent)} in NO_PROXY",
            where=where,
            expected=f"NO_PROXY with {','.join(_PAST_PROXY)}",
            why="a build gets its credentials at these addresses, which no proxy can reach",
            fix=f"add NO_PROXY={','.join(_PAST_PROXY)}, and the hosts that need no proxy",
        )


def _weights_variable(name: str, read: Collection[str] | None, *, where: str) -> Iterator[Problem]:
    if not _VARIABLE.fullmatch(name) or name.startswith(_TAKEN):
        yield BUILD_WEIGHTS.problem(
            what=f"the variable of weights is {name!r}",
            where=where,
            expected=f"capital letters, digits and underscores, beginning with none of {', '.join(_TAKEN)}",
            why="it becomes an environment variable, next to those that the build needs",
            fix="give the name that the model's build.py reads, such as T5_WEIGHTS",
        )
    elif read is not None and name not in read:
        yield BUILD_WEIGHTS.problem(
            what=f"no declaration reads {name}",
            where=where,
            expected=f"one of {', '.join(sorted(read))}" if read else "a variable that a build.py reads",
            why="it would be ignored, and the model built with other weights",
            fix=did_you_mean(name, sorted(read), otherwise="read it in the model's build.py with weights_at"),
        )


def _weights_address(name: str, address: str, *, where: str) -> Iterator[Problem]:
    weights = weights_at(address, otherwise=RandomWeights(seed=0))
    if not isinstance(weights, (HubWeights, S3Weights)):
        yield BUILD_WEIGHTS.problem(
            what=f"the weights of {name} are at {address!r}",
            where=where,
            expected=_EXAMPLES,
            why="a build runs on a machine without your files",
            fix="upload the weights to S3 and give their URL",
        )
        return
    if len(address) > LONGEST_WEIGHTS:
        yield BUILD_WEIGHTS.problem(
            what=f"the address of {name} has {len(address)} characters",
            where=where,
            expected=f"at most {LONGEST_WEIGHTS}",
            why=f"a Processing job limits a variable to {LONGEST_WEIGHTS} characters",
            fix="copy the object to a shorter key",
        )
    if _WILDCARDS.search(address):
        yield BUILD_WEIGHTS.problem(
            what=f"the address {address!r} of {name} has one of * ? $ in it",
            where=where,
            expected=_EXAMPLES,
            why="the permission to read it would be one for other objects as well",
            fix="copy the object to a key without these characters",
        )
    for mistake in weights.mistakes():
        yield BUILD_WEIGHTS.problem(
            what=f"{mistake.what}, the weights of {name}",
            where=where,
            expected=mistake.expected,
            why="the build would fail on it, minutes after it was started",
            fix=mistake.fix,
        )


# What an execution may be, and the arguments of a Processing job.
BUILD_RUNS = Check(
    id="build-runs",
    source=(
        "2026-11-21: https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html"
        " https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AppSpecification.html"
    ),
)
"""The division of a run: concurrent builds, and models per build."""

MOST_BUILDS = 10_000
"""Child executions of a Distributed Map at a time."""
MOST_MODELS = 1000
"""Models of one build. A Processing job takes 100 arguments of 256 characters, which are their names."""
LONGEST_RUN_S = 31_536_000
"""Seconds of an execution: a year."""


def build_runs(
    *, models_per_build: float | None, max_concurrency: float | None, reserved: float | None, where: str
) -> Iterator[Problem]:
    """Yield the problems with the division of a run. None is a number that is unknown or not given.

    Args:
        models_per_build: Models of one build.
        max_concurrency: Builds at a time.
        reserved: The number of machines reserved for them.
        where: The place that the problems name.
    """
    yield from number_range(models_per_build, least=1, most=MOST_MODELS, name="models_per_build", where=where)
    yield from number_range(max_concurrency, least=1, most=MOST_BUILDS, name="max_concurrency", where=where)
    if reserved is not None and max_concurrency is not None and max_concurrency > reserved:
        yield BUILD_RUNS.problem(
            what=f"{max_concurrency:g} builds at a time have {reserved:g} reserved machines",
            where=where,
            expected=f"at most {reserved:g}",
            why="the others would wait in CodeBuild's queue, and fail there after eight hours",
            fix="leave max_concurrency out, or give ReservedMachines a larger base_capacity",
        )
