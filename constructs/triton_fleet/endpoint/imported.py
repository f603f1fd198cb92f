"""Endpoints that something else has created: to invoke them, and to watch them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import jsii
from aws_cdk import Arn, ArnFormat, Resource, Stack, Token
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk.interfaces import aws_sagemaker as references
from constructs import Construct

from triton_fleet.endpoint.hosting.variants import resource_name
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.metrics.facts import DEFAULT_VARIANT
from triton_fleet.parts.metrics.published import EndpointMetrics, VariantMetrics
from triton_models.base.checks import Check, Report

_ARN = re.compile(r"[^:]*:[^:]*:sagemaker:[^:]*:[^:]*:endpoint/[^:]*")
ENDPOINT_ARN = Check(id="endpoint-arn", source="assumption: the form of SageMaker's ARNs")


def invocation_grant(
    grantee: iam.IGrantable, *, endpoint_arn: str, target_models: Sequence[str]
) -> iam.Grant:
    """Allow to invoke an endpoint, or only some of its models."""
    return iam.Grant.add_to_principal(
        grantee=grantee,
        actions=["sagemaker:InvokeEndpoint"],
        resource_arns=[endpoint_arn],
        conditions={"StringLike": {"sagemaker:TargetModel": list(target_models)}} if target_models else None,
    )


@jsii.implements(sagemaker.IEndpoint)
@typed
class ImportedEndpoint(Resource, VariantMetrics):
    """An existing endpoint, as an `aws_sagemaker.IEndpoint`.

    Its metrics are those of a variant with the default name, as of `VariantMetrics`.
    """

    def __init__(self, scope: Construct, construct_id: str, *, endpoint_arn: str, endpoint_name: str) -> None:
        """Name an endpoint; `Endpoint.from_endpoint_name` and `Endpoint.from_endpoint_arn` need less.

        The name is the same that ends the ARN.
        """
        super().__init__(scope, construct_id, environment_from_arn=endpoint_arn)
        self._arn = endpoint_arn
        self._name = endpoint_name
        self.instance = None

    @classmethod
    def _from_name(cls, scope: Construct, construct_id: str, endpoint_name: str) -> ImportedEndpoint:
        where = f"endpoint_name of {scope.node.path}/{construct_id}"
        report = Report(where)
        resource_name(report, known(endpoint_name), what="the endpoint")
        report.raise_if_any()
        # SageMaker writes the names in ARNs in lower case, and IAM compares with their case: a policy with
        # "Search" allows nothing, which github.com/philschmid/cdk-samples/issues/2 shows.
        name_in_arn = endpoint_name if Token.is_unresolved(endpoint_name) else endpoint_name.lower()
        arn = Stack.of(scope).format_arn(service="sagemaker", resource="endpoint", resource_name=name_in_arn)
        return cls(scope, construct_id, endpoint_arn=arn, endpoint_name=endpoint_name)

    @classmethod
    def _from_arn(cls, scope: Construct, construct_id: str, endpoint_arn: str) -> ImportedEndpoint:
        if not Token.is_unresolved(endpoint_arn) and not _ARN.fullmatch(endpoint_arn):
            raise ENDPOINT_ARN.error(
                what=f"the ARN is {endpoint_arn!r}",
                where=f"endpoint_arn of {scope.node.path}/{construct_id}",
                why="a grant on anything else allows nothing",
                fix="give its ARN, as arn:aws:sagemaker:us-east-1:123456789012:endpoint/search, or use "
                "from_endpoint_name",
            )
        name = Arn.split(endpoint_arn, ArnFormat.SLASH_RESOURCE_NAME).resource_name
        assert name is not None  # noqa: S101 -- an ARN of this format has one
        return cls(scope, construct_id, endpoint_arn=endpoint_arn, endpoint_name=name)

    @property
    def endpoint_arn(self) -> str:
        """Its ARN."""
        return self._arn

    @property
    def endpoint_name(self) -> str:
        """Its name; from an ARN in lower case, which is right for invoking only if the name itself is."""
        return self._name

    @property
    def endpoint_ref(self) -> references.EndpointReference:
        """The reference that CloudFormation-level constructs take."""
        return references.EndpointReference(endpoint_arn=self.endpoint_arn)

    def grant_invoke(self, grantee: iam.IGrantable, *, target_models: Sequence[str] = ()) -> iam.Grant:
        """Allow to invoke it; of many models, those that match patterns such as "minilm-*", or every one."""
        return invocation_grant(grantee, endpoint_arn=self.endpoint_arn, target_models=target_models)

    def variant(self, name: str = DEFAULT_VARIANT, *, instance_type: str | None = None) -> EndpointMetrics:
        """The metrics of one of its variants, whose utilization is computed with the instance type."""
        return EndpointMetrics(
            endpoint_name=self.endpoint_name, variant_name=name, instance_type=instance_type
        )

    @property
    def _dimensions(self) -> Mapping[str, str]:
        return self.variant()._dimensions
