"""The inputs that a build fetches besides its source: trained weights, and the token of a private hub."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aws_cdk import Stack
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_iam as iam
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from triton_models.declare.reading import FORM_MARK
from triton_models.declare.searched import untrained
from triton_models.declare.weights import SIDE_FILE

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


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildInputs:
    """The inputs of a build.

    Attributes:
        weights: The addresses of trained weights by environment variable.
        weights_from: The prefixes in S3 that declarations may read weights from.
        hub_token: The secret with the token of a private hub; None without one.
    """

    weights: Mapping[str, str]
    hub_token: secretsmanager.ISecret | None
    weights_from: tuple[str, ...] = ()

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes in S3 that builds read, without duplicates."""
        named = (each for each in self.weights.values() if each.startswith("s3://") and each.endswith("/"))
        return tuple(sorted({*named, *self.weights_from}))

    def prefix_arns(self, scope: Construct) -> list[str]:
        """Return the ARN pattern of the objects under each prefix."""
        return [f"{_arn(scope, address)}*" for address in self.prefixes]

    def weights_statements(self, scope: Construct) -> list[iam.PolicyStatement]:
        """Return the statements for fetching weights: named objects with their side files, and prefixes."""
        named = {address for address in self.weights.values() if address.startswith("s3://")}
        named |= {f"{address}{SIDE_FILE}" for address in named if address.endswith(".onnx")}
        arns = [
            *(_arn(scope, address) for address in sorted(named - set(self.prefixes))),
            *self.prefix_arns(scope),
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
    """Return the ARN of an object, or of a bucket."""
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
