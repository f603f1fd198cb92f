"""Checks of what builds are given: weights to fetch, and the division of a run."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from triton_fleet.builds.commands import ENVIRONMENT
from triton_fleet.parts.arguments.checks import number_range
from triton_fleet.parts.arguments.tokens import known
from triton_models.base.checks import Check, Report
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


def build_weights(report: Report, weights: Mapping[str, str], *, read: Collection[str] | None) -> None:
    """Report problems with the weights of a build job."""
    for name, address in weights.items():
        _weights_variable(report, name, read)
        _weights_address(report, name, address)


def weights_uploaded(report: Report, elsewhere: Iterable[str]) -> None:
    """Yield a problem for each file of weights that a declaration names and that no build job has."""
    for path in elsewhere:
        kept = f"LocalWeights(path=str(Path(__file__).with_name({Path(path).name!r})))"
        report(
            BUILD_WEIGHTS,
            f"the weights are at {path!r}",
            fix=f"upload it to S3 and give its URL, or keep a small file next to build.py: {kept}",
            why="a build gets only the files of the uploaded folder",
        )


def weights_prefixes(report: Report, prefixes: Iterable[str]) -> None:
    """Yield a problem for each invalid prefix of weights."""
    for address in prefixes:
        if not _PREFIX.fullmatch(address) or _WILDCARDS.search(address):
            report(
                BUILD_WEIGHTS,
                f"the prefix {address!r}",
                fix="write the folder that holds the weights, as s3://bucket/prefix/, without * ? $",
                why="it becomes a permission to read the objects under it",
            )


def weights_unreadable(
    report: Report, objects: Iterable[str], *, weights: Collection[str], prefixes: Collection[str]
) -> None:
    """Yield a problem for each declared address in S3 that a build may not read."""
    for address in dict.fromkeys(objects):
        if address in weights or address.startswith(tuple(prefixes)):
            continue
        folder = address[: address.rstrip("/").rindex("/") + 1]
        report(
            BUILD_WEIGHTS,
            f"the weights are at {address!r}, which builds may not read",
            fix=f"add {folder!r} to weights_from, or give the address as a variable in weights",
            why="a declaration gives no permission: the build would fail with AccessDenied",
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


def build_environment(report: Report, variables: Mapping[str, str], *, weights: Collection[str]) -> None:
    """Report problems with further environment variables of a build job."""
    for name, value in variables.items():
        if not _ANY_VARIABLE.fullmatch(name) or name.startswith(_SET_BY_BUILDS) or name in weights:
            report(
                BUILD_ENVIRONMENT,
                f"the variable {name!r}",
                fix="use another name, such as PIP_INDEX_URL: letters, digits and underscores, and none of "
                f"{', '.join(_SET_BY_BUILDS)} or the variables of weights",
                why="the build would work with another value than its own",
            )
        if _PASSWORD.search(value):
            report(
                BUILD_ENVIRONMENT,
                f"the value of {name} contains a password",
                fix="let the index or the proxy admit the VPC, or a role, instead of a password",
                why="templates, consoles and logs show variables",
            )
        elif len(value) > LONGEST_WEIGHTS:
            report(
                BUILD_ENVIRONMENT,
                f"the value of {name} has {len(value)} characters",
                fix=f"shorten it to {LONGEST_WEIGHTS}",
                why="a Processing job refuses longer variables",
            )
    _proxy_without_exceptions(report, variables)
    _without_port(report, variables)


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


def _without_port(report: Report, variables: Mapping[str, str]) -> None:
    for name, address, port in _addresses(variables):
        if port is None:
            report(
                BUILD_ENVIRONMENT,
                f"{name} is {address!r}, without a valid port",
                fix="add the port, as in http://proxy.example.com:3128",
                why="curl would take port 1080 of a proxy, and pip that of the scheme",
            )


BUILD_NETWORK = Check(
    id="build-network",
    source="2026-11-23: https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-endpoints-s3.html",
)
"""Builds in a VPC reach all of S3 that they need."""


def s3_of_builds(report: Report, *, narrowed: bool) -> None:
    """Report problems with the way of builds to S3."""
    if narrowed:
        report(
            BUILD_NETWORK,
            "the network creates the VPC endpoint for S3",
            fix="give builds a network with VpcService.S3 in existing_vpc_endpoints, or with a NAT gateway",
            why="that endpoint lets models be read: builds also write, and read sources and weights",
        )


def _proxy_without_exceptions(report: Report, variables: Mapping[str, str]) -> None:
    listed = {
        each.strip() for name in ("NO_PROXY", "no_proxy") for each in variables.get(name, "").split(",")
    }
    absent = [each for each in _PAST_PROXY if each not in listed]
    if absent and variables.keys() & {*_PROXIES}:
        report(
            BUILD_ENVIRONMENT,
            f"a proxy without {', '.join(absent)} in NO_PROXY",
            fix=f"add NO_PROXY={','.join(_PAST_PROXY)}, and the hosts that need no proxy",
            why="a build gets its credentials at these addresses, which no proxy can reach",
        )


def _weights_variable(report: Report, name: str, read: Collection[str] | None) -> None:
    if not _VARIABLE.fullmatch(name) or name.startswith(_TAKEN):
        report(
            BUILD_WEIGHTS,
            f"the variable of weights is {name!r}",
            fix="give the name that the model's build.py reads, such as T5_WEIGHTS: capitals, digits and "
            f"underscores, beginning with none of {', '.join(_TAKEN)}",
            why="it becomes an environment variable, next to those that the build needs",
        )
    elif read is not None and name not in read:
        report(
            BUILD_WEIGHTS,
            f"no declaration reads {name}",
            fix=did_you_mean(name, sorted(read), otherwise="read it in the model's build.py with weights_at"),
            why="it would be ignored, and the model built with other weights",
        )


def _weights_address(report: Report, name: str, address: str) -> None:
    weights = weights_at(address, otherwise=RandomWeights(seed=0))
    if not isinstance(weights, (HubWeights, S3Weights)):
        report(
            BUILD_WEIGHTS,
            f"the weights of {name} are at {address!r}",
            fix=f"upload the weights to S3, and give their URL: {_EXAMPLES}",
            why="a build runs on a machine without your files",
        )
        return
    if len(address) > LONGEST_WEIGHTS:
        report(
            BUILD_WEIGHTS,
            f"the address of {name} has {len(address)} characters",
            fix=f"copy the object to a shorter key: {LONGEST_WEIGHTS} characters at most",
            why=f"a Processing job limits a variable to {LONGEST_WEIGHTS} characters",
        )
    if _WILDCARDS.search(address):
        report(
            BUILD_WEIGHTS,
            f"the address {address!r} of {name} has one of * ? $ in it",
            fix="copy the object to a key without these characters",
            why="the permission to read it would be one for other objects as well",
        )
    for mistake in weights.mistakes():
        report(
            BUILD_WEIGHTS,
            f"{mistake.what}, the weights of {name}",
            fix=mistake.fix,
            why="the build would fail on it, minutes after it was started",
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
    report: Report, *, models_per_build: float | None, max_concurrency: float | None, reserved: float | None
) -> None:
    """Report problems with the division of a run. None is a number that is unknown or not given."""
    number_range(report, models_per_build, least=1, most=MOST_MODELS, name="models_per_build")
    number_range(report, max_concurrency, least=1, most=MOST_BUILDS, name="max_concurrency")
    if reserved is not None and max_concurrency is not None and max_concurrency > reserved:
        report(
            BUILD_RUNS,
            f"{max_concurrency:g} builds at a time have {reserved:g} reserved machines",
            fix=f"use {reserved:g} or fewer, or give ReservedMachines a larger base_capacity",
            why="the others would wait in CodeBuild's queue, and fail there after eight hours",
        )
