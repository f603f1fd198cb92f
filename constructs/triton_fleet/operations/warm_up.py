"""Loads models on a new endpoint before its traffic comes, and on a new fleet while an update is watched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from aws_cdk import Annotations as Advice
from aws_cdk import CustomResource, Duration, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_logs as logs
from constructs import Construct

from triton_fleet.endpoint.functions.around_endpoint import endpoint_arns
from triton_fleet.endpoint.functions.inline_function import InlineFunction
from triton_fleet.endpoint.hosting.deployment import AllAtOnce
from triton_fleet.endpoint.multi_model import MultiModelEndpoint
from triton_fleet.operations.scaling.alias import EndpointAlias
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_models.artifact.profile import MIB
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.check.fits import LIMITS, room_of
from triton_models.facts.gpu_memory import BACKENDS
from triton_models.facts.instances import InstanceType
from triton_models.repository.manifest import MANIFEST_NAME, REQUESTS

# A function runs for 15 minutes at most, and so does a warm-up.
WARM_UP_INTERVAL = Check(
    id="warm-up-interval",
    source="2026-11-21: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html",
)
_SHORTEST_S, _LONGEST_S = 1, 300  # three rounds in the run of a function
WARM_UP_REQUESTS = Check(
    id="warm-up-requests",
    source="2026-11-21: https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_Target.html",
)
HOT_MODELS = Check(id="hot-models", source=FROM_ARGUMENTS)
LONGEST_INPUT = 8192
"""Characters that an EventBridge rule passes to its target."""

_QUARTER_MINUTE = Duration.seconds(15)
_EVERYWHERE = '"everywhere":true,'


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpRequest:
    """A request that loads a model.

    Attributes:
        model: The model's name in the repository, such as "minilm"; its artifact is looked up when the
            request is sent.
        body: The request, best the smallest that the model takes: any request loads the model. In JSON, the
            data of a tensor may be `{"of": 0, "times": 150528}`, which is written out when it is sent: an
            image is longer than all requests together may be.
        content_type: The body's type.
    """

    model: str
    body: str
    content_type: str = "application/json"

    def _check(self, report: Report) -> None:
        body, content_type = known(self.body), known(self.content_type)
        for name, value in asdict(self).items():
            if known(value) is None:
                report(
                    WARM_UP_REQUESTS,
                    f"{name} is known only when the stack is deployed",
                    fix="use the literal value",
                    why="its length is checked at synthesis",
                )
            elif not value:
                why = "SageMaker would refuse every request"
                report(WARM_UP_REQUESTS, f"{name} is empty", fix=f"set {name}", why=why)
        if body and content_type and is_json(content_type):
            try:
                json.loads(body)
            except ValueError as error:
                report(
                    WARM_UP_REQUESTS,
                    f"the body is not JSON: {error}",
                    fix="create it with json.dumps(), or set another content_type",
                    why="the model would load, but every request would fail",
                )


@typed
class EndpointWarmUp(Construct):
    """Warm-up of a new fleet: invokes chosen models while SageMaker watches it.

    Without one, the first requests of a new fleet wait for their models. With `AllAtOnce` it is watched once
    all traffic has moved, so some wait nevertheless; with `Canary` these are the canary's share. On a new
    endpoint of an `EndpointAlias`, none wait.

    SageMaker announces a fleet that it begins to watch (status Baking) to EventBridge, and each further step
    of a deployment. A rule then starts a function that sends every request to the endpoint, and again every
    few seconds: of a canary, only a share reaches the new fleet. It ends when the endpoint is no longer
    watched, and after fifteen minutes in any case; its log names the models for which there was no time.
    Requests that fail are logged, and never fail a deployment. A model that refuses the input has been
    loaded, and is not asked again: refusals count as errors in the alarms that undo it. Once a new fleet has
    all traffic, a model is asked three times at most: models that do not fit into memory displace each other.

    SageMaker may announce a step twice. Two functions then send the same requests, which does no harm, so no
    concurrency is reserved to prevent it: an account with the small quota of a new one could not deploy that.

    `requests` travel in the rule, which holds more than a function's environment. With `published`, every
    other model in the repository is sent the request that its build has stored there, the smallest of its
    examples. One that was published without a request is loaded at its first one.

    The function and the rule are made before the endpoint is changed, so the deployment which brings them is
    warmed up already. Of a new endpoint SageMaker announces nothing: with `alias`, a custom resource sends
    the requests to it before the alias moves there. If another endpoint serves the fleet until then, a model
    that does not load fails the deployment.

    `hot` models are loaded on every instance: before the alias moves to a new endpoint, after an update, once
    more instances serve, and every five minutes, which keeps them in use and finds replaced instances:
    SageMaker does not announce those. It sends the requests for a model to an instance that has it, and some
    to another one if there are many, so each hot model gets many at a moment. If LoadedModelCount shows that
    an instance has fewer models, twice as many are sent. A new instance serves at once: SageMaker neither
    holds traffic back from it nor exempts a model from eviction. See "Hot models" in docs/recipes.md.

    Sources, read on 2026-11-21 and 2026-11-27:

    * https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html
    * https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpointWeightsAndCapacities.html
    * https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-endpoints.html
    * https://github.com/aws/event-ruler, "JSON Array Matching"

    Attributes:
        first_loads: The custom resource that warms up a new endpoint; None without an alias.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: MultiModelEndpoint,
        requests: Sequence[WarmUpRequest] = (),
        published: bool = False,
        cold_models: Sequence[str] = (),
        hot: Sequence[str] = (),
        every: Duration = _QUARTER_MINUTE,
        alias: EndpointAlias | None = None,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
    ) -> None:
        """Create the function and the rule.

        Args:
            endpoint: The endpoint to warm up. Its `deployment` must have a wait, during which it is warmed
                up.
            requests: At most one request for each model, 8192 characters together.
            published: Send the other models in the repository the requests of their builds.
            cold_models: Models that get none of these.
            hot: Models that every instance has loaded, by the same requests. They have to fit, next to the
                largest other model.
            every: The interval at which all of them are sent, 1 s to 5 minutes.
            alias: The alias of the fleet that the endpoint serves: it moves to a new endpoint once that has
                answered every request.
        """
        super().__init__(scope, construct_id)
        self.endpoint = endpoint
        self.requests = tuple(requests)
        self.hot = tuple(hot)
        self._input = _passed_on(self.requests, published=published, cold=cold_models, hot=self.hot)
        self._check(every, published=published, cold=cold_models)
        self.function = InlineFunction(
            self,
            "Function",
            source="warm_up",
            description=f"Loads models on a new fleet of the endpoint {endpoint.literal_name}",
            environment={
                "ENDPOINT_NAME": endpoint.literal_name,
                "EVERY_SECONDS": f"{every.to_seconds(integral=False):g}",
                "TARGET": str(endpoint.target),
                "MANIFEST_BUCKET": endpoint.repository.bucket.bucket_name,
                "MANIFEST_KEY": f"{endpoint.repository.prefix}{MANIFEST_NAME}",
                **({"ALL_TRAFFIC": "1"} if isinstance(endpoint.deployment, AllAtOnce) else {}),
                **({"ROOM": _room(endpoint.variant().instance)} if hot else {}),
            },
            memory_mb=512 if published or hot else 256,  # eight requests at once
            log_retention=log_retention,
        )
        self._allow(published=bool(published or hot))
        self.rule = self._on_baking()
        permission = self.function.allow_rule(self, self.rule)
        self.hot_rule = self._on_instances() if hot else None
        resource = endpoint.node.default_child
        if resource is not None and Stack.of(self).node.path == Stack.of(endpoint).node.path:
            resource.node.add_dependency(permission)  # which needs the function and the rule
        self.first_loads = self._first_loads(alias) if alias is not None else None
        self._advise()

    def _check(self, every: Duration, *, published: bool, cold: Sequence[str]) -> None:
        report = Report(self.node.path)
        requests = report.at("requests")
        if self.requests or not (published or self.hot):
            warm_up_models(requests, [known(each.model) for each in self.requests])
        for number, each in enumerate(self.requests, start=1):
            each._check(requests.at(f"request {number}"))
        if len(self._input) > LONGEST_INPUT - (len(_EVERYWHERE) if self.hot else 0):
            requests(
                WARM_UP_REQUESTS,
                f"the requests have {len(self._input)} characters together, as JSON",
                fix=f"use at most {LONGEST_INPUT}: send smaller inputs, or split the models between two "
                "warm-ups",
                why="an EventBridge rule, which carries them, passes no more",
            )
        warm_up_interval(report.at("every"), every)
        for name in sorted({each for each in self.hot if each in cold or self.hot.count(each) > 1}):
            report.at("hot")(
                HOT_MODELS,
                f"{name!r} is hot and not warmed up" if name in cold else f"{name!r} is there twice",
                fix=f"remove {name} from hot, or from the cold and retired models"
                if name in cold
                else "name it once",
            )
        report.raise_if_any()

    def _allow(self, *, published: bool) -> None:
        repository, allow = self.endpoint.repository, self.function.allow
        # By the literal name: the function exists before the endpoint does.
        endpoints = endpoint_arns(self.endpoint, self.endpoint.literal_name)
        allow("Endpoint", ["sagemaker:InvokeEndpoint", "sagemaker:DescribeEndpoint"], endpoints)
        names = [MANIFEST_NAME, *([f"{REQUESTS}/*"] if published else [])]
        read = [repository.bucket.arn_for_objects(f"{repository.prefix}{each}") for each in names]
        allow("Manifest", ["s3:GetObject"], read)
        allow("Key", ["kms:Decrypt"], [repository.key.key_arn])
        if self.hot:
            allow("LoadedModels", ["cloudwatch:GetMetricStatistics"], ["*"])

    def _on_instances(self) -> events.CfnRule:
        """The rule for changes of the endpoint, auto scaling among them, and for a replaced instance."""
        name = self.endpoint.literal_name
        rule = events.CfnRule(
            self,
            "HotRule",
            description=f"Load the hot models on every instance of the endpoint {name}",
            event_pattern={
                "source": ["aws.sagemaker"],
                "detail-type": ["SageMaker Endpoint State Change"],
                # In capitals in AWS's example of an event; DescribeEndpoint writes the other one.
                "detail": {"EndpointName": [name], "EndpointStatus": ["UPDATING", "Updating"]},
            },
            schedule_expression="rate(5 minutes)",
            targets=[
                events.CfnRule.TargetProperty(
                    id="Hot", arn=self.function.function.attr_arn, input=f"{{{_EVERYWHERE}{self._input[1:]}"
                )
            ],
        )
        self.function.allow_rule(rule, rule)
        return rule

    def _on_baking(self) -> events.CfnRule:
        name = self.endpoint.literal_name
        return events.CfnRule(
            self,
            "Rule",
            description=f"A new fleet of the endpoint {name} is watched: load its models",
            event_pattern={
                "source": ["aws.sagemaker"],
                "detail-type": ["SageMaker Endpoint Deployment State Change"],
                "detail": {
                    "EndpointName": [name],
                    # Variants and statuses are arrays in the event; EventBridge looks into their objects.
                    "PendingDeploymentSummary": {
                        "ProductionVariants": {"VariantStatus": {"Status": ["Baking"]}}
                    },
                },
            },
            targets=[
                events.CfnRule.TargetProperty(
                    id="WarmUp", arn=self.function.function.attr_arn, input=self._input
                )
            ],
        )

    def _first_loads(self, alias: EndpointAlias) -> CustomResource:
        """The resource that exists once a new endpoint has answered. Another endpoint is another resource."""
        endpoint = self.endpoint
        self.function.allow("Alias", ["ssm:GetParameter"], [alias.parameter_arn])
        loads = self.function.resource(
            self,
            f"FirstLoads-{endpoint.literal_name}",
            "FirstLoads",
            {"Alias": alias.parameter_name, "Requests": self._input},
            timeout=Duration.minutes(20),
        )
        loads.node.add_dependency(endpoint.node.find_child("Resource"), endpoint._change.settled)
        alias._moves_once_warm(loads)
        return loads

    def _advise(self) -> None:
        deployment = self.endpoint.deployment
        if deployment is not None and (
            deployment.wait.is_unresolved() or deployment.wait.to_seconds(integral=False) > 0
        ):
            return
        given = "no deployment of its own" if deployment is None else "a deployment that waits 0 s"
        Advice.of(self).add_warning_v2(
            "triton-fleet:warm-up-without-bake",
            f"The endpoint has {given}, so a new fleet is never watched and never warmed up: it takes "
            "all traffic with no model loaded. Give it deployment=Canary(), or another one with a wait.",
        )


def _passed_on(
    requests: Sequence[WarmUpRequest], *, published: bool, cold: Sequence[str], hot: Sequence[str]
) -> str:
    passed: dict[str, Any] = {"requests": [asdict(each) for each in requests]}
    if published:
        passed |= {"published": True, "cold": list(cold)}
    if hot:
        passed["hot"] = list(hot)
    return json.dumps(passed, ensure_ascii=False, separators=(",", ":"))


def _room(about: InstanceType) -> str:
    """What an instance has for models, for the function; nothing of one without a GPU."""
    if about.gpu is None:
        return "{}"
    room = room_of(about, backends=(), where=about.name)
    return json.dumps(
        {
            "type": about.name,
            "has": {field: [words, int(getattr(room, field))] for field, words in LIMITS.items()},
            "libraries": {backend: each.first * MIB for backend, each in BACKENDS.items()},
        }
    )


def warm_up_interval(report: Report, every: Duration) -> None:
    """Report problems with sending the requests at this interval."""
    seconds = None if every.is_unresolved() else every.to_seconds(integral=False)
    if seconds is not None and _SHORTEST_S <= seconds <= _LONGEST_S:
        return
    given = "known only when the stack is deployed" if seconds is None else f"{seconds:g} s"
    report(
        WARM_UP_INTERVAL,
        f"every is {given}",
        fix=f"use {_SHORTEST_S} to {_LONGEST_S} s; the default is 15",
        why="shorter intervals load the fleet, and longer ones hardly reach a canary",
    )


def warm_up_models(report: Report, models: Sequence[str | None]) -> None:
    """Report problems with warming up these models; None if it is known only at deployment."""
    if not models:
        report(
            WARM_UP_REQUESTS,
            "there is no request",
            fix="add a WarmUpRequest for each model that must not be slow",
            why="the alarms would watch a new fleet that has no model loaded",
        )
    for name in sorted({each for each in models if each is not None and models.count(each) > 1}):
        report(
            WARM_UP_REQUESTS,
            f"{models.count(name)} requests for the model {name!r}",
            fix="keep one of them",
            why="the first request loads the model",
        )


def is_json(content_type: str) -> bool:
    """Return whether a body of this type is JSON."""
    return content_type.partition(";")[0].strip().lower() == "application/json"
