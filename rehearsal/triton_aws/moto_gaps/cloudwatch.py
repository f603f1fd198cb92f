"""CloudWatch alarms.

moto's gaps:
- It lacks PutCompositeAlarm, although it can describe composite alarms.
- DescribeAlarms always returns composite alarms. AWS returns them only if AlarmTypes names them.
- A new alarm is OK, and a change resets it to OK. In AWS a new alarm is INSUFFICIENT_DATA, and a change keeps
  the state.
- An alarm accepts actions of any region. AWS refuses those of another region.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from moto.cloudwatch.exceptions import ValidationError
from moto.cloudwatch.models import Alarm, CloudWatchBackend
from moto.cloudwatch.responses import CloudWatchResponse
from moto.core.responses import ActionResult

from triton_aws.assumptions import holds
from triton_aws.moto_gaps import patch

# ALARM("name"), OK('name') and the like in an alarm rule. Quotes are optional, and an ARN can replace a name.
_RULE_ALARM = re.compile(r"\b(?:ALARM|OK|INSUFFICIENT_DATA)\s*\(\s*[\"']?([^\"')]+?)[\"']?\s*\)")
_SUPPRESSOR = {
    "ActionsSuppressor": "actions_suppressor",
    "ActionsSuppressorWaitPeriod": "actions_suppressor_wait_period",
    "ActionsSuppressorExtensionPeriod": "actions_suppressor_extension_period",
}
_ACTIONS = ("alarm_actions", "ok_actions", "insufficient_data_actions")
_STATE = ("state_value", "state_reason", "state_reason_data", "state_updated_timestamp", "history")

_moto_put = CloudWatchBackend.put_metric_alarm
_moto_describe = CloudWatchResponse.describe_alarms


def _put_metric_alarm(self: CloudWatchBackend, name: str, **options: Any) -> Alarm:
    _refuse_elsewhere(self.region_name, options)
    former = self.alarms.get(name)
    alarm: Alarm = _moto_put(self, name=name, **options)
    if former is None:
        alarm.state_value = "INSUFFICIENT_DATA"
    else:
        for attribute in _STATE:
            setattr(alarm, attribute, getattr(former, attribute))
    return alarm


def _refuse_elsewhere(region: str, options: Mapping[str, Any]) -> None:
    """Refuse actions in another region, in CloudWatch's words."""
    actions = [arn for kind in _ACTIONS for arn in options.get(kind) or ()]
    for other in (arn.split(":")[3] for arn in actions if arn.count(":") > 3):  # noqa: PLR2004 -- an ARN's region
        if other not in ("", region) and holds("topic_same_region"):
            msg = f"Invalid region {other} specified. Only {region} is supported."
            raise ValidationError(msg)


def _put_composite_alarm(self: CloudWatchResponse) -> ActionResult:
    rule = self._get_param("AlarmRule")
    named = {found.rsplit(":alarm:", 1)[-1] for found in _RULE_ALARM.findall(rule)}
    absent = sorted(named - set(self.cloudwatch_backend.alarms))
    if absent:
        listed = ", ".join(absent)
        msg = f"Could not save the composite alarm as alarms [{listed}] in the alarm rule do not exist"
        raise ValidationError(msg)
    # moto's own method also reads AlarmRule. The other fields that it reads are not in such a request.
    result: ActionResult = self.put_metric_alarm()
    alarm = self.cloudwatch_backend.alarms[self._get_param("AlarmName")]
    for parameter, attribute in _SUPPRESSOR.items():
        setattr(alarm, attribute, self._get_param(parameter))
    return result


def _describe_alarms(self: CloudWatchResponse) -> ActionResult:
    found: Any = _moto_describe(self).result
    wanted = self._get_param("AlarmTypes", []) or ["MetricAlarm"]
    return ActionResult(
        {
            "MetricAlarms": found["MetricAlarms"] if "MetricAlarm" in wanted else [],
            "CompositeAlarms": found["CompositeAlarms"] if "CompositeAlarm" in wanted else [],
        }
    )


def install() -> None:
    """Close the gaps."""
    patch.add(CloudWatchResponse, put_composite_alarm=_put_composite_alarm)
    patch.replace(CloudWatchResponse, describe_alarms=_describe_alarms)
    patch.replace(CloudWatchBackend, put_metric_alarm=_put_metric_alarm)
