"""Alarms, with their urgency and runbooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from constructs import Construct

from triton_fleet.endpoint.base import Endpoint
from triton_fleet.endpoint.hosting.variants import DeployedVariant
from triton_fleet.endpoint.multi_model import MultiModelEndpoint
from triton_fleet.operations.alarm_declarations import (
    AlarmDeclaration,
    Severity,
    caching,
    ceiling,
    gpu_memory,
    load_failures,
    no_capacity,
    queueing,
    serving,
    silent,
    without_gpu,
)
from triton_fleet.operations.scaling.endpoint_scaling import EndpointScaling
from triton_fleet.operations.signals import ModelSignals
from triton_fleet.operations.thresholds import Thresholds
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.metrics.published import MINUTE
from triton_fleet.parts.metrics.server_log import LOAD_FAILURE_PATTERN
from triton_models.base.checks import Check, Report

# A scalable target is registered for one variant of one endpoint.
SAME_VARIANT = Check(
    id="same-variant",
    source="2026-11-21: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html",
)


@typed
class EndpointAlarms(Construct):
    """The alarms of an endpoint, or of one of its variants.

    Those that page are gathered in one composite alarm, so that one outage is one page. Alarms that are
    tickets notify on their own.

    Attributes:
        alarms: Alarms by name, such as "Latency". The dashboard draws their thresholds.
        paging: In alarm if any alarm that pages is.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: Endpoint,
        variant: str | None = None,
        scaling: EndpointScaling | None = None,
        thresholds: Thresholds | None = None,
        log_group: logs.ILogGroup | None = None,
        topic: sns.ITopic | None = None,
        ticket_topic: sns.ITopic | None = None,
        signals: ModelSignals | None = None,
    ) -> None:
        """Create the alarms.

        Args:
            variant: The name of one of its variants; None for the first, which is most endpoints' only one.
            scaling: Its auto scaling, for the alarms about a fleet that cannot grow, or does not.
            thresholds: The limits of normal operation.
            log_group: The endpoint's log group, for the alarm about failed loads: no metric of
                SageMaker's says so. Costs one metric of your own.
            topic: Gets the alarms. Without one they only change their state.
            ticket_topic: Gets the tickets, if others are paged than get tickets.
            signals: Its signals, for the alarms about single models.
        """
        super().__init__(scope, construct_id)
        limits = thresholds or Thresholds()
        report = Report(self.node.path)
        limits._check(report.at("thresholds"))
        watched = endpoint.variant(variant)
        self._watched = f"{endpoint.literal_name}/{watched.name}"
        same_variant(report, self._watched, scaling, argument="scaling")
        same_variant(report, self._watched, signals, argument="signals")
        report.raise_if_any()
        prefix = endpoint._name_of(watched)
        declared = list(
            _declared(watched, limits, multi_model=isinstance(endpoint, MultiModelEndpoint), scaling=scaling)
        )
        if log_group is not None:
            declared.append(load_failures(self._failures(log_group, endpoint)))
        if signals is not None:
            declared += signals._alarms()
        if not watched.instance.gpu_count:
            declared = [without_gpu(each) for each in declared]
        self.alarms: Mapping[str, cloudwatch.Alarm] = MappingProxyType(
            {
                each.name: each.create(self, alarm_name=f"{prefix}-{each.severity.value}-{each.name}")
                for each in declared
            }
        )
        self._lines = {each.name: each.line() for each in declared}
        pages = [self.alarms[each.name] for each in declared if each.severity is Severity.PAGE]
        tickets = [self.alarms[each.name] for each in declared if each.severity is Severity.TICKET]
        rules = [cloudwatch.AlarmRule.from_alarm(alarm, cloudwatch.AlarmState.ALARM) for alarm in pages]
        self.paging = cloudwatch.CompositeAlarm(
            self,
            "Paging",
            composite_alarm_name=f"{prefix}-page",
            alarm_description="Requests fail or are slow now. See the alarms of this one that are in alarm.",
            alarm_rule=cloudwatch.AlarmRule.any_of(*rules),
        )
        _notify(topic, [self.paging])
        _notify(ticket_topic or topic, tickets)

    def _failures(self, log_group: logs.ILogGroup, endpoint: Endpoint) -> cloudwatch.IMetric:
        counter = logs.MetricFilter(
            self,
            "FailedLoads",
            log_group=log_group,
            filter_pattern=logs.FilterPattern.literal(LOAD_FAILURE_PATTERN),
            # A filter's metric can have no dimension with a fixed value, so the namespace names the endpoint.
            metric_namespace=f"TritonFleet/{endpoint.literal_name}",
            metric_name="ModelLoadFailures",
            metric_value="1",
        )
        return counter.metric(statistic="Sum", period=MINUTE, label="failed loads")


def _declared(
    variant: DeployedVariant, thresholds: Thresholds, *, multi_model: bool, scaling: EndpointScaling | None
) -> Iterator[AlarmDeclaration]:
    """Yield the alarms that apply to the variant, such as those for a cache or a GPU."""
    yield from (queueing if variant.asynchronous else serving)(variant, thresholds)
    if multi_model:
        yield from caching(variant, thresholds)
    if variant.instance.gpu_count:
        yield gpu_memory(variant, thresholds)
    if variant.asynchronous:  # SageMaker counts no requests of it
        return
    yield silent(variant)
    if scaling is not None:
        fewest, most = known(scaling.min_capacity), known(scaling.max_capacity)
        if (
            fewest is not None and most is not None and fewest < most
        ):  # one that never grows is at its maximum
            yield ceiling(variant, max_capacity=scaling.max_capacity)
        yield no_capacity(variant, thresholds, fewest=scaling.min_capacity, most=scaling.max_capacity)
        return
    count = known(variant.initial_instance_count)
    if count is not None and count > 1:  # one that is missing of one is an endpoint that serves nothing
        yield no_capacity(variant, thresholds, fewest=count, most=count)


def _notify(topic: sns.ITopic | None, alarms: Sequence[cloudwatch.AlarmBase]) -> None:
    if topic is None:
        return
    for alarm in alarms:
        alarm.add_alarm_action(actions.SnsAction(topic))
        alarm.add_ok_action(actions.SnsAction(topic))


def same_variant(
    report: Report,
    watched: str,
    given: EndpointAlarms | EndpointScaling | ModelSignals | None,
    *,
    argument: str,
) -> None:
    """Report problems with giving what belongs to another variant."""
    if given is not None and given._watched != watched:
        report.at(argument)(
            SAME_VARIANT,
            f"the {argument} is of {given._watched}, not of {watched}",
            fix=f"use the {argument} of the same endpoint and variant, or omit it",
            why="its limits would be compared with the metrics of another variant",
        )
