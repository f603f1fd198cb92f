"""A multi-model endpoint, and everything that keeps it serving."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from aws_cdk import Annotations, Names, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_sns as sns
from constructs import Construct

from triton_fleet.endpoint.hosting.deployment import AllAtOnce, Deployment, Replace
from triton_fleet.endpoint.hosting.server import TritonServer
from triton_fleet.endpoint.multi_model import MultiModelEndpoint
from triton_fleet.fleet.accepted_findings import accept, in_alias, in_endpoint, in_signals, in_warm_up
from triton_fleet.fleet.given_requests import unfit_requests
from triton_fleet.fleet.model_library import FLEET_MODELS, ModelLibrary
from triton_fleet.operations.alarms import EndpointAlarms
from triton_fleet.operations.budget import MonthlyBudget
from triton_fleet.operations.dashboard import EndpointDashboard
from triton_fleet.operations.notifications import AlarmTopic
from triton_fleet.operations.rollback import GreenFleetAlarms, RollbackAlarms
from triton_fleet.operations.scaling.alias import EndpointAlias, endpoint_name_for
from triton_fleet.operations.scaling.endpoint_scaling import EndpointScaling
from triton_fleet.operations.scaling.target import ScalingTarget
from triton_fleet.operations.signals import WATCHED_MODELS, ModelSignals
from triton_fleet.operations.thresholds import Thresholds
from triton_fleet.operations.warm_up import EndpointWarmUp, WarmUpRequest
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.network.placement import Placement
from triton_fleet.parts.repository.model_repository import ModelRepository
from triton_fleet.parts.serving import Serving
from triton_models.base.checks import Report
from triton_models.base.errors import FleetError
from triton_models.facts.cost import dollars
from triton_models.facts.instances import instance_type as find_instance_type
from triton_models.facts.quotas import DEFAULT_MAX_CAPACITY

SILENT_ALARMS = "triton-fleet:alarms-notify-no-one"
"""The id of the warning of a fleet whose alarms go nowhere."""

NOTHING_IS_BUILT = "triton-fleet:nothing-is-built"
"""The id of the note on a fleet that builds no model."""

BUDGET_BELOW_MINIMUM = "triton-fleet:budget-below-minimum"
"""The id of the warning of a budget that the fewest instances exceed."""

_EVERY = "*"
_NAME_CHARACTERS = 24
_DIGITS = 6


@typed
class MultiModelFleet(Construct):
    """Models behind one multi-model endpoint, with builds, auto scaling, alarms, a dashboard and an alias.

    Another instance type or release is another endpoint: it is filled and warmed next to the old one, then
    the alias moves. Findings of AwsSolutions are accepted, each with its reason.

    Example:
        ```python
        app = App()
        stack = Stack(app, "Fleet")
        MultiModelFleet(stack, "Fleet", source="model_builds", models=["minilm", "resnet50"])
        ```

    Attributes:
        library: The model repository and its builds.
        alias: The name that applications follow.
        rollback: The alarms that undo an update, of the endpoint and of its newest fleet alone.
        warm_up: Loads models on a new fleet; None if it is switched off.
        notifications: The topic made for `alarm_email`; None without an address.
        budget: The budget of its instances; None without one.
        signals: What clients count of each model; None if it is switched off.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        library: ModelLibrary | None = None,
        source: str | Path | None = None,
        models: Sequence[str] | None = None,
        serving: Serving | None = None,
        fleet_name: str | None = None,
        min_capacity: int = 1,
        max_capacity: int = DEFAULT_MAX_CAPACITY,
        targets: Sequence[ScalingTarget] | None = None,
        deployment: Deployment | Replace | None = None,
        rollback_alarms: bool = True,
        thresholds: Thresholds | None = None,
        warm_up: Sequence[WarmUpRequest] | None = None,
        cold_models: Sequence[str] = (),
        hot: Sequence[str] = (),
        retired_models: Sequence[str] = (),
        alarm_topic: sns.ITopic | None = None,
        alarm_email: str | None = None,
        hourly_price_usd: float | None = None,
        monthly_budget_usd: float | None = None,
        signals: bool = False,
        watch: Sequence[str] = (),
        placement: Placement | None = None,
        server: TritonServer | None = None,
    ) -> None:
        """Create the fleet.

        Args:
            library: The models, such as of a stack of their own. By default a new library of `models`.
            source: The folder that holds models/, such as `model_builds`, of a new library.
            models: The models that a new library builds. By default every folder in models/.
            serving: The instance type, the release and the image. By default the library's, or `Serving()`.
            fleet_name: The first part of the names of endpoint and alias. By default derived from the path of
                the construct.
            min_capacity: The fewest instances.
            max_capacity: The most instances.
            targets: Values that auto scaling keeps. By default 600 requests per GPU per minute and a GPU
                utilization of 60 %; without a GPU a CPU utilization of 60 %.
            deployment: The way to a new configuration. By default all at once.
            rollback_alarms: Undo an update while errors or latency are above `thresholds`. Without effect if
                the endpoint is replaced.
            thresholds: The limits of normal operation.
            warm_up: Requests that load models on a new fleet. A model that is not named here gets the request
                that its build has stored next to it, the smallest of its examples. An empty list sends
                nothing.
            cold_models: Models that are not warmed up; "*" for all that `warm_up` does not name.
            hot: Models that every instance has loaded; see `EndpointWarmUp`.
            retired_models: Models that may be missing after a change of the release or the instance type.
            alarm_topic: The topic that gets the alarms.
            alarm_email: An address that gets the alarms; unused with `alarm_topic`.
            hourly_price_usd: The price of an instance per hour. By default the price on demand.
            monthly_budget_usd: The limit per month for the cost of the instances; see `MonthlyBudget`.
                Its warnings go where the alarms go. By default no budget.
            signals: Read what clients with `Client(signals=...)` count of each model: the dashboard shows the
                worst models, and an alarm goes off if any model fails.
            watch: The models that have alarms of their own, by published name. Needs `signals`.
            placement: The network, the role and the key of the instances. By default the key is that of the
                library, on types without local NVMe.
            server: The options of the Triton server.
        """
        super().__init__(scope, construct_id)
        if library is not None:
            self._refuse_next_to_library(source=source, models=models)
        self.library = library or ModelLibrary(self, "Library", source=source, models=models, serving=serving)
        name = fleet_name or Names.unique_resource_name(self, max_length=_NAME_CHARACTERS, separator="-")
        limits = thresholds or Thresholds()
        self.endpoint, self.rollback = self._endpoint(
            name,
            serving=serving or self.library.serving,
            initial_instance_count=min_capacity,
            deployment=deployment or AllAtOnce(),
            rollback_limits=limits if rollback_alarms and not isinstance(deployment, Replace) else None,
            placement=placement or Placement(),
            server=server,
        )
        self.scaling = EndpointScaling(
            self,
            "Scaling",
            endpoint=self.endpoint,
            min_capacity=min_capacity,
            max_capacity=max_capacity,
            targets=targets,
        )
        self.alias = EndpointAlias(
            self,
            "Alias",
            endpoint=self.endpoint,
            fleet=name,
            scaling=[self.scaling],
            not_needed=retired_models,
        )
        self.warm_up = self._warm_up(warm_up, cold_models, retired_models, hot)
        self.notifications = (
            AlarmTopic(self, "Notifications", email=alarm_email) if alarm_email and not alarm_topic else None
        )
        topic = alarm_topic or (self.notifications.topic if self.notifications else None)
        self.signals = self._signals(watch, limits, on=signals)
        self.alarms, self.dashboard = self._operations(limits, topic, hourly_price_usd)
        self.budget = (
            None
            if monthly_budget_usd is None
            else MonthlyBudget(
                self,
                "Budget",
                fleet=name,
                limit_usd=monthly_budget_usd,
                topic=alarm_topic,
                email=None if alarm_topic else alarm_email,
            )
        )
        self._advise_on_budget(monthly_budget_usd)
        if library is None and source is None:
            Annotations.of(self).add_info_v2(
                NOTHING_IS_BUILT,
                "The fleet builds no model, and serves what is published with `fleet publish`. To build "
                'models, give source="model_builds", the folder with models/.',
            )
        accept(in_endpoint(self.endpoint, self.library.repository))
        accept(in_alias(self.alias))
        if self.warm_up is not None:
            accept(in_warm_up(self.warm_up))
        if self.signals is not None:
            accept(in_signals(self.signals))

    def grant_invoke(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow what `triton_models.client.Client` does: follow the alias, resolve names, and invoke models.

        With `signals` also to write them. The weights stay closed, and the grant holds through changes of the
        release and the instance type.
        """
        grant = self.alias.grant_invoke(grantee).combine(self.library.repository.grant_resolve(grantee))
        return grant if self.signals is None else grant.combine(self.signals.grant_write(grantee))

    def _refuse_next_to_library(self, **arguments: object) -> None:
        given = " and ".join(name for name, value in arguments.items() if value is not None)
        if given:
            raise FLEET_MODELS.error(
                what=f"library is given together with {given}",
                where=f"library of {self.node.path}",
                fix=f"give {given} to the ModelLibrary",
                why="a library builds its own models",
            )

    def _endpoint(
        self,
        name: str,
        *,
        serving: Serving,
        initial_instance_count: int,
        deployment: Deployment | Replace,
        rollback_limits: Thresholds | None,
        placement: Placement,
        server: TritonServer | None,
    ) -> tuple[MultiModelEndpoint, tuple[RollbackAlarms | GreenFleetAlarms, ...]]:
        replaces, limits = isinstance(deployment, Replace), rollback_limits
        arguments: dict[str, Any] = {
            "serving": serving,
            "initial_instance_count": initial_instance_count,
            "server": server,
        }
        if placement.encryption_key is None and not find_instance_type(serving.instance_type).nvme_gb:
            # Copies of models are on a volume; NVMe is encrypted by its hardware.
            placement = replace(placement, encryption_key=self.library.repository.key)
        settings = self._settings(arguments, placement) if replaces else ""
        full_name = endpoint_name_for(name, serving.instance_type, release=serving.release, settings=settings)
        watched = (
            None
            if limits is None
            else RollbackAlarms(self, "Rollback", endpoint_name=full_name, thresholds=limits)
        )
        endpoint = MultiModelEndpoint(
            self,
            "Endpoint",
            repository=self.library.repository,
            endpoint_name=full_name,
            placement=placement,
            # What a digest does not cover, such as tags, is updated.
            deployment=AllAtOnce() if isinstance(deployment, Replace) else deployment,
            rollback_alarms=watched.names if watched else (),
            **arguments,
        )
        if watched is None:
            return endpoint, ()
        new_fleet = GreenFleetAlarms(self, "NewFleet", endpoint=endpoint, thresholds=limits)
        return endpoint, (watched, new_fleet)

    def _settings(self, arguments: Mapping[str, Any], placement: Placement) -> str:
        """A digest of an endpoint's model and configuration, without the endpoint's name.

        They are rendered in a stack of their own. What would change there is compared by itself: the
        repository, the key, the role and the network.
        """
        scratch, stack = Stack(), Stack.of(self)
        try:
            endpoint = MultiModelEndpoint(
                scratch,
                "Endpoint",
                repository=ModelRepository(scratch, "Repository"),
                endpoint_name="settings",
                **arguments,
            )
        except FleetError:
            return ""  # the endpoint itself raises it, and says where
        model, config = endpoint.node.find_child("Model"), endpoint.node.find_child("Config")
        assert isinstance(model, sagemaker.CfnModel)  # noqa: S101 -- an endpoint consists of both
        assert isinstance(config, sagemaker.CfnEndpointConfig)  # noqa: S101
        rendered = [
            scratch.resolve(each)
            for each in (model.primary_container, config.production_variants, config.metrics_config)
        ]
        key, role, network = placement.encryption_key, placement.role, placement.network
        theirs = [
            self.library.repository.url,
            key.key_arn if key else None,
            role.role_arn if role else None,
            network._vpc_config() if network else None,
        ]
        rendered += [stack.resolve(each) for each in theirs]
        return hashlib.sha256(json.dumps(rendered, sort_keys=True).encode()).hexdigest()[:_DIGITS]

    def _signals(self, watch: Sequence[str], limits: Thresholds, *, on: bool) -> ModelSignals | None:
        if on:
            signals = ModelSignals(self, "Signals", endpoint=self.endpoint, watch=watch, thresholds=limits)
            # Those of another endpoint are read once clients go there.
            signals.function.function.node.add_dependency(self.alias)
            return signals
        if watch:
            raise WATCHED_MODELS.error(
                what=f"watch names {', '.join(watch)}, and signals is off",
                where=f"watch of {self.node.path}",
                fix="turn signals on, or remove watch",
                why="AWS has no metric of a single model",
            )
        return None

    def _operations(
        self, limits: Thresholds, topic: sns.ITopic | None, hourly_price_usd: float | None
    ) -> tuple[EndpointAlarms, EndpointDashboard]:
        alarms = EndpointAlarms(
            self,
            "Alarms",
            endpoint=self.endpoint,
            scaling=self.scaling,
            thresholds=limits,
            topic=topic,
            log_group=self.endpoint.log_group,
            signals=self.signals,
        )
        if topic is None:
            Annotations.of(alarms).add_warning_v2(
                SILENT_ALARMS, "The alarms notify no one. Give alarm_topic or alarm_email."
            )
        dashboard = EndpointDashboard(
            self,
            "Dashboard",
            endpoint=self.endpoint,
            alarms=alarms,
            scaling=self.scaling,
            models=len(self.library.built),
            hourly_price_usd=hourly_price_usd,
            signals=self.signals,
        )
        return alarms, dashboard

    def _advise_on_budget(self, limit_usd: float | None) -> None:
        """Warn of a budget that the fewest instances exceed every month."""
        limit, cost = known(limit_usd), self.dashboard.cost
        if limit is not None and cost is not None and limit < cost.floor:
            Annotations.of(self).add_warning_v2(
                BUDGET_BELOW_MINIMUM,
                f"monthly_budget_usd is {limit:g}; {cost.min_instances} x {cost.instance_type} costs "
                f"{dollars(cost.floor)} per month, so the budget warns every month. Raise it, lower "
                "min_capacity, or set hourly_price_usd to the price of your region.",
            )

    def _warm_up(
        self,
        given: Sequence[WarmUpRequest] | None,
        cold: Sequence[str],
        retired: Sequence[str],
        hot: Sequence[str],
    ) -> EndpointWarmUp | None:
        """The warm-up with these requests and those of the builds; None if it is switched off."""
        others = _EVERY not in cold and not (given is not None and not given)
        if not given and not others and not hot:
            return None
        cold = [each for each in cold if each != _EVERY]
        if self.library.source is not None:
            report = Report(self.node.path)
            unfit_requests(
                report.at("warm_up"),
                given or (),
                cold=cold,
                hot=hot,
                built=self.library.built,
                models=self.library.source / "models",
            )
            report.raise_if_any()
        return EndpointWarmUp(
            self,
            "WarmUp",
            endpoint=self.endpoint,
            requests=given or (),
            published=others,
            cold_models=list(dict.fromkeys((*cold, *retired))),
            hot=hot,
            alias=self.alias,
        )
