"""CloudWatch's alarms.

moto's gaps, which is why other alarms replace its own:
- Nothing evaluates alarms or performs their actions, and the history has only former states.
- It lacks PutCompositeAlarm, although it can describe composite alarms.
- DescribeAlarms returns everything at once, and composite alarms unasked. AWS returns them only if AlarmTypes
  names them.
- A new alarm is OK, and a change resets it to OK. In AWS a new alarm is INSUFFICIENT_DATA, and a change keeps
  the state.
- An alarm accepts actions of any region. AWS refuses those of another region.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from moto.cloudwatch.exceptions import (
    InvalidFormat,
    InvalidParameterCombination,
    InvalidParameterValue,
    ResourceNotFound,
    ValidationError,
)
from moto.cloudwatch.models import CloudWatchBackend, cloudwatch_backends
from moto.cloudwatch.responses import CloudWatchResponse
from moto.core.responses import ActionResult, EmptyResult
from moto.utilities.utils import get_partition

from embedded_aws import clock
from embedded_aws.clock import moment
from embedded_aws.cloudwatch.alarm_state import COMPARISONS, Rule, period_of, queries_of
from embedded_aws.cloudwatch.alarms import Alarm, Alarms, Status
from embedded_aws.cloudwatch.metric_math import ExpressionError, parsed
from embedded_aws.cloudwatch.statistics import is_statistic
from embedded_aws.moto_gaps import patch
from embedded_aws.moto_gaps.alarm_actions import Actions
from embedded_aws.moto_gaps.metrics import metrics_of, seconds
from embedded_aws.moto_gaps.requests import page
from embedded_aws.syntax import SyntaxFormError

_ACTIONS = ("AlarmActions", "OKActions", "InsufficientDataActions")
_STATES = ("INSUFFICIENT_DATA", "ALARM", "OK")
_MISSING = ("breaching", "notBreaching", "ignore", "missing")
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_DescribeAlarms.html, and
# .../API_PutMetricAlarm.html for the longest time, read 2026-11-23.
_PAGE = 50
_HISTORY_PAGE = 100
_PAGES: dict[str, Any] = {
    "limit": "MaxRecords",
    "refusal": InvalidParameterValue("Request parameter NextToken is invalid"),
}
_HOUR_S, _DAY_S, _WEEK_S = 3600, 86_400, 604_800


def alarms_of(backend: CloudWatchBackend) -> Alarms:
    """Return the alarms of an account in a region. A reset of moto removes them."""
    found: Alarms | None = vars(backend).get("embedded_aws_alarms")
    by_name: Any = backend.alarms
    if found is None:
        region = backend.region_name
        found = Alarms(
            prefix=f"arn:{get_partition(region)}:cloudwatch:{region}:{backend.account_id}:alarm:",
            metrics=metrics_of(backend),
            observer=Actions(backend.account_id, region),
            by_name=by_name,
        )
        vars(backend)["embedded_aws_alarms"] = found
    return found


def evaluate_alarms(account: str, *, at: float) -> None:
    for backend in list(cloudwatch_backends[account].values()):
        if backend.alarms:
            alarms_of(backend).evaluate(at=at)


@patch.replaces(CloudWatchResponse, "put_metric_alarm")
def _put_metric_alarm(self: CloudWatchResponse) -> ActionResult:
    given = self._get_params()
    _refuse_elsewhere(self.region, given)
    _check_metric_alarm(given)
    _put(self.cloudwatch_backend, given)
    return EmptyResult()


@patch.adds(CloudWatchResponse, "put_composite_alarm")
def _put_composite_alarm(self: CloudWatchResponse) -> ActionResult:
    given = self._get_params()
    _refuse_elsewhere(self.region, given)
    try:
        rule = Rule(given["AlarmRule"])
    except SyntaxFormError as error:
        raise ValidationError(f"AlarmRule cannot be parsed: {error}") from error
    if given.get("ActionsSuppressor"):
        raise ValidationError("The embedded AWS has no suppressors of actions")
    absent = sorted({*rule.alarms} - set(self.cloudwatch_backend.alarms))
    if absent:
        listed = ", ".join(absent)
        msg = f"Could not save the composite alarm as alarms [{listed}] in the alarm rule do not exist"
        raise ValidationError(msg)
    _put(self.cloudwatch_backend, given)
    return EmptyResult()


def _put(backend: CloudWatchBackend, given: Mapping[str, Any]) -> None:
    settings = {name: value for name, value in given.items() if name != "Tags" and value is not None}
    new = settings["AlarmName"] not in backend.alarms
    alarms = alarms_of(backend)
    alarms.put(settings, at=clock.current().time())
    if new and given.get("Tags"):
        backend.tagger.tag_resource(alarms.by_name[settings["AlarmName"]].alarm_arn, given["Tags"])


@patch.replaces(CloudWatchBackend, "put_metric_alarm")
def _put_for_service(self: CloudWatchBackend, name: str, **options: Any) -> Alarm:
    """Write the alarm of a service of moto, which names the settings as Python does."""
    names = {"statistic": "Statistic", "description": "AlarmDescription", "ok_actions": "OKActions"}
    settings = {
        names.get(option) or "".join(part.title() for part in option.split("_")): value
        for option, value in options.items()
        if value is not None
    }
    _put(self, {**settings, "AlarmName": name})
    return alarms_of(self).by_name[name]


def _refuse_elsewhere(region: str, given: Mapping[str, Any]) -> None:
    actions = [arn for kind in _ACTIONS for arn in given.get(kind) or ()]
    for other in (arn.split(":")[3] for arn in actions if arn.count(":") > 3):  # noqa: PLR2004 -- an ARN's region
        if other not in ("", region):
            raise ValidationError(f"Invalid region {other} specified. Only {region} is supported.")


def _check_metric_alarm(given: Mapping[str, Any]) -> None:
    if given.get("ThresholdMetricId") or given.get("ComparisonOperator") not in COMPARISONS:
        listed = ", ".join(COMPARISONS)
        msg = f"The embedded AWS has no anomaly detection; ComparisonOperator must be one of {listed}"
        raise ValidationError(msg)
    if given.get("Threshold") is None:
        raise ValidationError("The parameter Threshold is required.")
    _check_choice(given, "TreatMissingData", _MISSING)
    _check_choice(given, "EvaluateLowSampleCountPercentile", ("evaluate",))
    if given.get("Metrics"):
        _check_metrics(given)
    else:
        _check_metric(given)
    periods, period = int(given["EvaluationPeriods"]), period_of(given)
    if int(given.get("DatapointsToAlarm") or periods) > periods:
        raise ValidationError("DatapointsToAlarm must be less than or equal to EvaluationPeriods.")
    longest = _WEEK_S if period >= _HOUR_S else _DAY_S
    if periods * period > longest:
        msg = f"Metrics cannot be checked across more than {longest} seconds (EvaluationPeriods * Period)."
        raise ValidationError(msg)


def _check_choice(given: Mapping[str, Any], name: str, choices: Sequence[str]) -> None:
    value = given.get(name)
    if value is not None and value not in choices:
        listed = ", ".join(choices)
        msg = f"Option {value} is not supported. Supported options for parameter {name} are {listed}."
        raise ValidationError(msg)


def _check_metric(given: Mapping[str, Any]) -> None:
    missing = [name for name in ("MetricName", "Namespace", "Period") if not given.get(name)]
    if missing:
        raise ValidationError(f"The parameter {missing[0]} is required.")
    if bool(given.get("Statistic")) == bool(given.get("ExtendedStatistic")):
        raise InvalidParameterCombination("Must specify either Statistic or ExtendedStatistic")
    extended = given.get("ExtendedStatistic")
    if extended and not is_statistic(extended):
        raise InvalidParameterValue(f"The value {extended} for parameter ExtendedStatistic is not supported.")


def _check_metrics(given: Mapping[str, Any]) -> None:
    if any(
        given.get(name) for name in ("MetricName", "Namespace", "Statistic", "ExtendedStatistic", "Period")
    ):
        msg = "Metrics must not be used with MetricName, Namespace, Statistic, ExtendedStatistic or Period."
        raise InvalidParameterCombination(msg)
    queries = queries_of(given)
    if sum(bool(query.get("ReturnData", True)) for query in queries) != 1:
        raise ValidationError("Exactly one element of the metrics list should return data.")
    for query in queries:
        if query.get("Expression"):
            try:
                parsed(str(query["Expression"]))
            except ExpressionError as error:
                raise ValidationError(str(error)) from error


@patch.replaces(CloudWatchResponse, "set_alarm_state")
def _set_alarm_state(self: CloudWatchResponse) -> ActionResult:
    given = self._get_params()
    alarms, name, state = alarms_of(self.cloudwatch_backend), given["AlarmName"], given["StateValue"]
    if name not in alarms.by_name:
        raise ResourceNotFound
    if state not in _STATES:
        raise ValidationError(
            f"1 validation error detected: Value '{state}' at 'stateValue' failed to satisfy constraint: "
            f"Member must satisfy enum value set: [{', '.join(_STATES)}]"
        )
    data = given.get("StateReasonData") or ""
    try:
        json.loads(data or "{}")
    except ValueError:
        unknown = "Unknown"
        raise InvalidFormat(unknown) from None
    now = clock.current().time()
    alarms.set_state(name, Status(value=state, reason=given["StateReason"], data=data, at=now))
    return EmptyResult()


@patch.replaces(CloudWatchBackend, "delete_alarms")
def _delete_alarms(self: CloudWatchBackend, alarm_names: Sequence[str]) -> None:
    alarms_of(self).delete(alarm_names, at=clock.current().time())


@patch.replaces(CloudWatchBackend, "enable_alarm_actions")
def _enable_alarm_actions(self: CloudWatchBackend, alarm_names: Sequence[str]) -> None:
    alarms_of(self).enable_actions(alarm_names, enabled=True, at=clock.current().time())


@patch.replaces(CloudWatchBackend, "disable_alarm_actions")
def _disable_alarm_actions(self: CloudWatchBackend, alarm_names: Sequence[str]) -> None:
    alarms_of(self).enable_actions(alarm_names, enabled=False, at=clock.current().time())


@patch.replaces(CloudWatchResponse, "describe_alarms")
def _describe_alarms(self: CloudWatchResponse) -> ActionResult:
    given = self._get_params()
    if given.get("ChildrenOfAlarmName") or given.get("ParentsOfAlarmName"):
        raise NotImplementedError("DescribeAlarms by parents or children")
    names = given.get("AlarmNames") or ()
    kinds = given.get("AlarmTypes") or ("MetricAlarm",)
    found = [
        alarm
        for alarm in alarms_of(self.cloudwatch_backend).by_name.values()
        if alarm.kind in kinds
        and (not names or alarm.name in names)
        and alarm.name.startswith(given.get("AlarmNamePrefix") or "")
        and given.get("StateValue") in (None, alarm.state_value)
        and any(arn.startswith(given.get("ActionPrefix") or "") for arn in (*_actions(alarm), ""))
    ]
    answer = page(given, "alarms", sorted(found, key=lambda alarm: alarm.name), size=_PAGE, **_PAGES)
    shown = answer.pop("alarms")
    for kind in ("MetricAlarm", "CompositeAlarm"):
        answer[f"{kind}s"] = [_shown(alarm) for alarm in shown if alarm.kind == kind]
    return ActionResult(answer)


def _actions(alarm: Alarm) -> list[str]:
    return [arn for kind in _ACTIONS for arn in alarm.settings.get(kind) or ()]


def _shown(alarm: Alarm) -> dict[str, Any]:
    status = alarm.status
    shown = {
        **{name: [] for name in _ACTIONS},
        "ActionsEnabled": True,
        **alarm.settings,
        "AlarmArn": alarm.alarm_arn,
        "AlarmConfigurationUpdatedTimestamp": moment(alarm.configured),
        "StateValue": status.value,
        "StateReason": status.reason,
        "StateUpdatedTimestamp": moment(status.at),
        "StateTransitionedTimestamp": moment(alarm.transitioned),
    }
    if status.data:
        shown["StateReasonData"] = status.data
    return shown


@patch.replaces(CloudWatchResponse, "describe_alarms_for_metric")
def _describe_alarms_for_metric(self: CloudWatchResponse) -> ActionResult:
    given = self._get_params()
    wanted = ("Namespace", "MetricName", "Statistic", "ExtendedStatistic", "Period", "Unit")
    dimensions = _pairs(given)
    found = [
        alarm
        for alarm in alarms_of(self.cloudwatch_backend).by_name.values()
        if all(given.get(name) in (None, alarm.settings.get(name)) for name in wanted)
        and (not dimensions or dimensions == _pairs(alarm.settings))
    ]
    return ActionResult({"MetricAlarms": [_shown(alarm) for alarm in found]})


def _pairs(given: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(each["Name"], each["Value"]) for each in given.get("Dimensions") or ()}


@patch.adds(CloudWatchResponse, "describe_alarm_history")
def _describe_alarm_history(self: CloudWatchResponse) -> ActionResult:
    given = self._get_params()
    actions: Any = alarms_of(self.cloudwatch_backend).observer
    kinds = given.get("AlarmTypes") or ("MetricAlarm",)
    start = seconds(given["StartDate"]) if given.get("StartDate") else 0.0
    end = seconds(given["EndDate"]) if given.get("EndDate") else float("inf")
    found = [
        entry
        for entry in actions.history()
        if given.get("AlarmName") in (None, entry["AlarmName"])
        and given.get("HistoryItemType") in (None, entry["HistoryItemType"])
        and (given.get("AlarmName") or entry["AlarmType"] in kinds)
        and start <= entry["Timestamp"].timestamp() <= end
    ]
    if given.get("ScanBy") != "TimestampAscending":
        found.reverse()
    return ActionResult(page(given, "AlarmHistoryItems", found, size=_HISTORY_PAGE, **_PAGES))
