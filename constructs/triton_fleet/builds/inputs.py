"""The inputs of a build besides its source: weights, a private hub's token, and environment variables."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from aws_cdk import Stack
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_iam as iam
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from triton_fleet.builds.commands import ENVIRONMENT
from triton_fleet.parts.arguments.tokens import known
from triton_models.base.checks import Check, Report
from triton_models.base.suggest import did_you_mean
from triton_models.declare.reading import FORM_MARK
from triton_models.declare.searched import untrained
from triton_models.declare.weights import SIDE_FILE, HubWeights, RandomWeights, S3Weights, weights_at

# What a variable may hold, and which characters stand for others in a policy.
BUILD_WEIGHTS = Check(
    id="build-weights",
    source=(
        "2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateProcessingJob.html"
        " https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_resource.html"
    ),
)

BUILD_ENVIRONMENT = Check(
    id="build-environment",
    source="2026-11-23: https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-env-vars.html"
    " https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateProcessingJob.html"
    " https://docs.aws.amazon.com/codebuild/latest/userguide/use-proxy-server.html",
)

HUB_TOKEN = "HF_TOKEN"  # noqa: S105 -- the name of the variable that the hub's own library reads
_SECRET = "FLEET_HUB_TOKEN_SECRET"  # noqa: S105

RANDOM_WEIGHTS = "triton-fleet:random-weights"
"""The id of the warning of a model with random weights; a colon and the model's name follow."""

# Everyone who may describe a Processing job sees its variables. So the job gets the name of the secret, and
# reads the secret itself. Two commands, because `export NAME=$(...)` never fails.
_FETCH_TOKEN = (
    f"{HUB_TOKEN}=$(python3 -c 'import boto3, os; "
    'print(boto3.client("secretsmanager")'
    f'.get_secret_value(SecretId=os.environ["{_SECRET}"])["SecretString"])\')',
    f"export {HUB_TOKEN}",
)

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
# Set by the build job and by what runs it; another value would change something else than weights.
_TAKEN = ("FLEET_", "AWS_", "CODEBUILD_", "HF_", "PIP_")
_PREFIX = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/(.*/)?")
# In a policy these stand for other characters, so a permission would reach further than one object.
_WILDCARDS = re.compile(r"[*?$]")
_LONGEST_VARIABLE = 256  # characters of a variable of a Processing job
_EXAMPLES = "s3://bucket/key, s3://bucket/prefix/, or hf://owner/name@<full commit hash>"

# Besides the variables of the build job itself.
_SET_BY_BUILDS = ("FLEET_", "AWS_", "CODEBUILD_", *ENVIRONMENT)
_PASSWORD = re.compile(r"//[^/@\s]+:[^/@\s]+@")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_INDEXES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "HF_ENDPOINT")
_PORTS = {"http": 80, "https": 443}
# The addresses at which a build in CodeBuild, or in a Processing job, gets its credentials.
_PAST_PROXY = ("169.254.169.254", "169.254.170.2")
_ANY_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildInputs:
    """The inputs of a build."""

    weights: Mapping[str, str]  # addresses of trained weights by environment variable
    hub_token: secretsmanager.ISecret | None
    weights_from: tuple[str, ...] = ()  # prefixes in S3 that declarations may read weights from

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes in S3 that builds read, without duplicates."""
        named = (each for each in self.weights.values() if each.startswith("s3://") and each.endswith("/"))
        return tuple(sorted({*named, *self.weights_from}))

    def prefix_arns(self, scope: Construct) -> list[str]:
        """Return the ARN pattern of the objects under each prefix."""
        return [f"{_arn(scope, address)}*" for address in self.prefixes]

    @property
    def objects(self) -> tuple[str, ...]:
        """The addresses in S3 that builds read: objects with their side files, and prefixes."""
        named = {address for address in self.weights.values() if address.startswith("s3://")}
        named |= {f"{address}{SIDE_FILE}" for address in named if address.endswith(".onnx")}
        return (*sorted(named - set(self.prefixes)), *self.prefixes)

    def weights_statements(self, scope: Construct) -> list[iam.PolicyStatement]:
        """Return the statements for fetching weights: named objects with their side files, and prefixes."""
        arns = [
            f"{_arn(scope, address)}{'*' if address in self.prefixes else ''}" for address in self.objects
        ]
        lists = [
            iam.PolicyStatement(
                actions=["s3:ListBucket"],
                resources=[_arn(scope, address.partition("//")[2].partition("/")[0])],
                conditions={
                    "StringLike": {"s3:prefix": f"{address.removeprefix('s3://').partition('/')[2]}*"}
                },
            )
            for address in self.prefixes
        ]
        reads = iam.PolicyStatement(sid="Weights", actions=["s3:GetObject"], resources=arns)
        return [reads, *lists] if arns else []

    def token_variables(self) -> dict[str, codebuild.BuildEnvironmentVariable]:
        """Return the token as CodeBuild takes it, which reads the secret and hides it in the log."""
        if self.hub_token is None:
            return {}
        secret = codebuild.BuildEnvironmentVariableType.SECRETS_MANAGER
        return {HUB_TOKEN: codebuild.BuildEnvironmentVariable(type=secret, value=self.hub_token.secret_arn)}

    def of_job(self) -> tuple[dict[str, str], Sequence[str]]:
        """Return the variables of a Processing job, and the commands that fetch the token in it."""
        if self.hub_token is None:
            return dict(self.weights), ()
        return {**self.weights, _SECRET: self.hub_token.secret_arn}, _FETCH_TOKEN


def _arn(scope: Construct, address: str) -> str:
    bucket, _, key = address.removeprefix("s3://").partition("/")
    return Stack.of(scope).format_arn(
        service="s3", region="", account="", resource=bucket, resource_name=key or None
    )


def weights_advice(
    names: Iterable[str], *, source: Path, given: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """The id and the text of a warning for each model that has random weights."""
    for name in names:
        folder, _, form = name.partition(FORM_MARK)
        variables = list(untrained(source / "models" / folder, given=given, form=form))
        if variables:
            trained = f"as {' or '.join(variables)} in `weights`" if any(variables) else "in its build.py"
            yield (
                f"{RANDOM_WEIGHTS}:{name}",
                f"The model {name} has random weights: it answers, and the answers mean nothing. "
                f"Name trained weights {trained}.",
            )


def build_weights(report: Report, weights: Mapping[str, str], *, read: Collection[str] | None) -> None:
    """Report problems with the weights of a build job."""
    for name, address in weights.items():
        _weights_variable(report, name, read)
        _weights_address(report, name, address)


def weights_uploaded(report: Report, elsewhere: Iterable[str]) -> None:
    """Report files of weights that a declaration names and that no build job has."""
    for path in elsewhere:
        kept = f"LocalWeights(path=str(Path(__file__).with_name({Path(path).name!r})))"
        report(
            BUILD_WEIGHTS,
            f"the weights are at {path!r}",
            fix=f"upload it to S3 and give its URL, or keep a small file next to build.py: {kept}",
            why="a build gets only the files of the uploaded folder",
        )


def weights_prefixes(report: Report, prefixes: Iterable[str]) -> None:
    """Report invalid prefixes of weights."""
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
    """Report declared addresses in S3 that a build may not read."""
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
    if len(address) > _LONGEST_VARIABLE:
        report(
            BUILD_WEIGHTS,
            f"the address of {name} has {len(address)} characters",
            fix=f"copy the object to a shorter key: {_LONGEST_VARIABLE} characters at most",
            why=f"a Processing job limits a variable to {_LONGEST_VARIABLE} characters",
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


def check_environment(report: Report, variables: Mapping[str, str], *, weights: Collection[str]) -> None:
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
        elif len(value) > _LONGEST_VARIABLE:
            report(
                BUILD_ENVIRONMENT,
                f"the value of {name} has {len(value)} characters",
                fix=f"shorten it to {_LONGEST_VARIABLE}",
                why="a Processing job refuses longer variables",
            )
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
    for name, address, port in _addresses(variables):
        if port is None:
            report(
                BUILD_ENVIRONMENT,
                f"{name} is {address!r}, without a valid port",
                fix="add the port, as in http://proxy.example.com:3128",
                why="curl would take port 1080 of a proxy, and pip that of the scheme",
            )


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
