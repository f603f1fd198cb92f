"""An endpoint's alias: the name that applications know, whichever endpoint serves it.

A plan that was compiled for one release and GPU does not load on another, and SageMaker refuses to change the
instance type of a variant that is scaled. So both are part of the endpoint's name here, and another one is
another endpoint with its scaling. The endpoint before is removed last: if anything fails, the deployment is
rolled back, and it has served throughout, with the artifacts that it had.

Both endpoints exist for some minutes: the account needs the quota for both, and pays for both so long. The
new one starts without a loaded model, unless a `EndpointWarmUp` with this alias loads some.

Source, read on 2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration, Stack, Tags, Token
from aws_cdk import aws_iam as iam
from aws_cdk import aws_ssm as ssm
from constructs import Construct, IConstruct

from triton_fleet.endpoint.base import Endpoint
from triton_fleet.endpoint.functions.around_endpoint import endpoint_arns
from triton_fleet.endpoint.functions.inline_function import InlineFunction
from triton_fleet.endpoint.multi_model import MultiModelEndpoint
from triton_fleet.operations.scaling.endpoint_scaling import EndpointScaling
from triton_fleet.parts.arguments.typed import typed
from triton_models.base.checks import Check
from triton_models.facts.releases import DEFAULT_RELEASE
from triton_models.repository.alias import alias_name
from triton_models.repository.manifest import MANIFEST_NAME

ALIAS_ENDPOINT_NAME = Check(
    id="alias-endpoint-name",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html",
)
_LONGEST_NAME = 63

FLEET_TAG = "triton-fleet:fleet"
"""The tag of an endpoint that says which fleet it serves; who may invoke the fleet is decided by it."""


def endpoint_name_for(
    fleet: str, *instance_types: str, release: str = DEFAULT_RELEASE, settings: str = ""
) -> str:
    """The name of a fleet's endpoint of these instance types and release: TritonFleet-g5-2xlarge-25-09.

    A type of several variants counts once. `settings` is more that makes another endpoint, such as a digest.
    """
    types = dict.fromkeys(name.removeprefix("ml.").replace(".", "-") for name in instance_types)
    name = "-".join((fleet, *types, release.replace(".", "-"), *([settings] if settings else ())))
    if not Token.is_unresolved(name) and len(name) > _LONGEST_NAME:
        raise ALIAS_ENDPOINT_NAME.error(
            what=f"the endpoint's name {name!r} has {len(name)} characters",
            where=f"the name of the fleet {fleet!r}",
            why="SageMaker limits names to 63 characters, including the type and the release",
            fix=f"shorten the fleet's name to {_LONGEST_NAME - len(name) + len(fleet)} characters",
        )
    return name


@typed
class EndpointAlias(Construct):
    """A Systems Manager parameter with the name of a fleet's current endpoint, and its target.

    Its value is one JSON object, such as {"endpoint": "TritonFleet-g5-2xlarge-25-09", "target":
    "sm86-trt10.13.3"}. It moves when the endpoint that it names can take all traffic: after that one, its
    scaling and its warm-up, and if it has an artifact for every name that the fleet serves. Applications read
    it, with `triton_models.client.Client(alias=...)` or on their own.

    What has to be ready before the new endpoint is created, such as a `DeploymentBuild` in the same stack, is
    a dependency of this: `alias.node.add_dependency(build)`.

    Attributes:
        parameter_name: Its own name, which never changes: /triton-fleet/<fleet>/endpoint.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: Endpoint,
        fleet: str,
        scaling: Sequence[EndpointScaling] = (),
        not_needed: Sequence[str] = (),
    ) -> None:
        """Create the parameter.

        Args:
            endpoint: The current endpoint. Its name must be `endpoint_name_for(fleet, instance_type,
                release=release)`.
            fleet: The fleet's name. It must not change: it is in the name that applications know.
            scaling: The scaling of the endpoint's variants, which has to be there before traffic is.
            not_needed: Models that are no longer built, and may be missing on another endpoint.
        """
        super().__init__(scope, construct_id)
        self.endpoint = endpoint
        self.fleet = fleet
        self.parameter_name = alias_name(fleet)
        self._check()
        self._parameter = ssm.CfnParameter(
            self,
            "Parameter",
            name=self.parameter_name,
            type="String",
            value=f'{{"endpoint": "{endpoint.endpoint_name}", "target": "{endpoint.target}"}}',
            description=f"The endpoint that serves the fleet {fleet} now, and its target",
        )
        self._ready = self._names_ready(not_needed)
        # The endpoint alone: its model and configuration are not invoked.
        Tags.of(endpoint.node.find_child("Resource")).add(FLEET_TAG, fleet)
        endpoint._change._take_over(
            alias=self.parameter_name,
            alias_arn=self.parameter_arn,
            endpoints=self._endpoint_arns,
            most={each.variant.name: each.max_capacity for each in scaling},
        )
        self._scaling = tuple(scaling)
        self.moves_after(endpoint._change.settled)
        for each in scaling:
            self.moves_after(each)

    def moves_after(self, ready: IConstruct) -> None:
        """Let the alias move only when something is ready that needs the endpoint, such as its warm-up."""
        self._parameter.node.add_dependency(ready)
        if self._ready is not None:
            self._ready.after.node.add_dependency(ready)

    def _moves_once_warm(self, loads: IConstruct) -> None:
        """Let auto scaling begin, and the alias move, after the first loads.

        Auto scaling would remove instances that get no requests yet.
        """
        for each in self._scaling:
            each._target.node.add_dependency(loads)
        self.moves_after(loads)

    def _names_ready(self, not_needed: Sequence[str]) -> NamesReady | None:
        endpoint = self.endpoint
        if not isinstance(endpoint, MultiModelEndpoint) or Token.is_unresolved(endpoint.literal_name):
            return None
        ready = NamesReady(self, "NamesReady", endpoint=endpoint, not_needed=not_needed)
        resource = endpoint.node.find_child("Resource")
        if Stack.of(self).node.path == Stack.of(endpoint).node.path:
            resource.node.add_dependency(ready.before)
        ready.after.node.add_dependency(resource)
        self._parameter.node.add_dependency(ready.after)
        return ready

    @property
    def parameter_arn(self) -> str:
        """The parameter's ARN."""
        # The slash that the name begins with is the one that the ARN has anyway.
        return Stack.of(self).format_arn(
            service="ssm", resource="parameter", resource_name=self.parameter_name.removeprefix("/")
        )

    def grant_read(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow to read which endpoint it is."""
        return iam.Grant.add_to_principal(
            grantee=grantee, actions=["ssm:GetParameter"], resource_arns=[self.parameter_arn]
        )

    def grant_invoke(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow to read the alias, and to invoke the fleet's endpoint on whichever instance type it is.

        The endpoint's own `grant_invoke` names one endpoint: while the fleet moves to the next, an
        application would be denied the one or the other. This one allows every endpoint whose name begins
        with the fleet's and a hyphen, and that is tagged with the fleet's name: the fleet "search" must not
        open "search-internal", whose endpoints' names begin the same way.

        The resource type endpoint supports aws:ResourceTag. Source, read on 2026-11-21:
        https://docs.aws.amazon.com/service-authorization/latest/reference/list_sagemaker.html
        """
        return self.grant_read(grantee).combine(
            iam.Grant.add_to_principal(
                grantee=grantee,
                actions=["sagemaker:InvokeEndpoint"],
                resource_arns=self._endpoint_arns,
                conditions={"StringEquals": {f"aws:ResourceTag/{FLEET_TAG}": self.fleet}},
            )
        )

    @property
    def _endpoint_arns(self) -> list[str]:
        return endpoint_arns(self, f"{self.fleet}-*")

    def _check(self) -> None:
        if Token.is_unresolved(self.endpoint.literal_name) or Token.is_unresolved(self.fleet):
            return
        types = [variant.instance.name for variant in self.endpoint.variants.values()]
        name = self.endpoint.literal_name
        expected = endpoint_name_for(self.fleet, *types, release=self.endpoint.release.name)
        if name != expected and not name.startswith(f"{expected}-"):
            raise ALIAS_ENDPOINT_NAME.error(
                what=f"the endpoint is named {name!r}",
                where=f"endpoint of {self.node.path}",
                why="another type or release needs another endpoint, next to the current one",
                fix=f"name it {expected!r}, with endpoint_name_for(fleet, instance_type, release=release)",
            )


class NamesReady(Construct):
    """Custom resources that are there only if every name of a fleet stands for something on a target.

    Compared is what the alias names now with what is to come: each model that the target of today's endpoint
    has an artifact of must have one for the new target. A deployment that would lose one fails, and names it.
    It also fails if it would restore a version that was rolled back. The first deployment of a fleet, which
    has no alias yet, is not checked.

    It is checked before the new endpoint is created, and once more before the alias moves. Both resources
    belong to one endpoint, so that neither an update of that endpoint nor a rollback checks anything.
    """

    def __init__(
        self,
        alias: EndpointAlias,
        construct_id: str,
        *,
        endpoint: MultiModelEndpoint,
        not_needed: Sequence[str],
    ) -> None:
        super().__init__(alias, construct_id)
        self.function = InlineFunction(
            self,
            "Function",
            source="names_ready",
            description="Checks that an endpoint has an artifact for every name that a fleet serves",
            memory_mb=256,  # it reads a manifest of thousands of models
        )
        repository, allow = endpoint.repository, self.function.allow
        bucket, manifest = repository.bucket, f"{repository.prefix}{MANIFEST_NAME}"
        allow("Alias", ["ssm:GetParameter"], [alias.parameter_arn])
        allow("Manifest", ["s3:GetObject"], [bucket.arn_for_objects(manifest)])
        allow("ManifestListed", ["s3:ListBucket"], [bucket.bucket_arn], prefixes=manifest)
        allow("Key", ["kms:Decrypt"], [repository.key.key_arn])
        properties = {
            "Alias": alias.parameter_name,
            "Bucket": bucket.bucket_name,
            "ManifestKey": manifest,
            "Endpoint": endpoint.literal_name,
            "Target": str(endpoint.target),
            "NotNeeded": sorted(not_needed),
        }
        self.before, self.after = (
            self.function.resource(
                self, f"{when}-{endpoint.literal_name}", "Names", properties, timeout=Duration.minutes(5)
            )
            for when in ("Before", "After")
        )
