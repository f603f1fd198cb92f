"""Values that checks accept, held against what the services say of themselves in botocore's models."""

from __future__ import annotations

import re
from typing import Any

import botocore.session
import pytest

from tests.constructs.check_cases import NO_STATISTICS, STATISTICS
from triton_fleet.hosting.checks import LONGEST_CONTENT_TYPE, LONGEST_RESOURCE_NAME, MOST_CONTENT_TYPES
from triton_fleet.hosting.deployment_checks import MOST_ROLLBACK_ALARMS

# Of CloudWatch's pattern, and explained on no page of it.
UNEXPLAINED = {"p90_E", "o90"}


def _shape(service: str, name: str) -> dict[str, Any]:
    model = botocore.session.Session().get_service_model(service)
    return dict(model.shape_for(name).metadata)


def _matching(statistics: tuple[str, ...]) -> set[str]:
    pattern = re.compile(_shape("cloudwatch", "AnomalyDetectorMetricStat")["pattern"], re.ASCII)
    return {each for each in statistics if pattern.fullmatch(each)}


def test_a_statistic_is_right_where_cloudwatch_says_so() -> None:
    assert _matching(STATISTICS) == set(STATISTICS)
    assert _matching(NO_STATISTICS) == UNEXPLAINED


def test_a_query_of_a_policy_takes_any_statistic() -> None:
    model: Any = botocore.session.Session().get_service_model("application-autoscaling")

    assert "enum" not in model.shape_for("TargetTrackingMetricStat").members["Stat"].metadata
    assert (
        "any CloudWatch statistic"
        in model.shape_for("TargetTrackingMetricStat").members["Stat"].documentation
    )


@pytest.mark.parametrize(
    ("shape", "longest"),
    [
        ("EndpointName", LONGEST_RESOURCE_NAME),
        ("VariantName", LONGEST_RESOURCE_NAME),
        ("CsvContentType", LONGEST_CONTENT_TYPE),
        ("JsonContentType", LONGEST_CONTENT_TYPE),
        ("CsvContentTypes", MOST_CONTENT_TYPES),
        ("JsonContentTypes", MOST_CONTENT_TYPES),
        ("AlarmList", MOST_ROLLBACK_ALARMS),
    ],
)
def test_a_limit_is_sagemakers_own(shape: str, longest: int) -> None:
    assert _shape("sagemaker", shape)["max"] == longest
