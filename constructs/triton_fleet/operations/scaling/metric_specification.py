"""A CloudWatch metric as a policy of target tracking takes it.

Source, read on 2026-11-21: the API model of Application Auto Scaling, for what each kind of metric may hold.
"""

from __future__ import annotations

from collections.abc import Iterator

from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch

Tracking = autoscaling.CfnScalingPolicy.TargetTrackingScalingPolicyConfigurationProperty
Customized = autoscaling.CfnScalingPolicy.CustomizedMetricSpecificationProperty
Predefined = autoscaling.CfnScalingPolicy.PredefinedMetricSpecificationProperty

_Dimension = autoscaling.CfnScalingPolicy.MetricDimensionProperty
_Query = autoscaling.CfnScalingPolicy.TargetTrackingMetricDataQueryProperty
_QueryStat = autoscaling.CfnScalingPolicy.TargetTrackingMetricStatProperty
_QueryMetric = autoscaling.CfnScalingPolicy.TargetTrackingMetricProperty
_QueryDimension = autoscaling.CfnScalingPolicy.TargetTrackingMetricDimensionProperty

# The statistics that a metric on its own may have; any other has to be the only query of an expression.
_PLAIN_STATISTICS = frozenset({"Average", "Minimum", "Maximum", "SampleCount", "Sum"})


def specification(metric: cloudwatch.IMetric, *, unit: str | None = None) -> Customized:
    """The metric as a policy takes it: by its name if that says everything, else as queries."""
    stat = metric.to_metric_config().metric_stat
    if stat is None or stat.statistic not in _PLAIN_STATISTICS:
        return Customized(metrics=_queries(metric))
    return Customized(
        metric_name=stat.metric_name,
        namespace=stat.namespace,
        statistic=stat.statistic,
        unit=unit or _unit(stat.unit_filter),
        dimensions=[_Dimension(name=each.name, value=each.value) for each in stat.dimensions or ()] or None,
    )


def _unit(unit: cloudwatch.Unit | None) -> str | None:
    """CloudWatch's own name of a unit: Count/Second, where CDK's enumeration says COUNT_PER_SECOND."""
    return None if unit is None else unit.name.title().replace("_Per_", "/")


def _queries(metric: cloudwatch.IMetric) -> list[_Query]:
    """A query for the metric and for each that it refers to; only the metric itself is returned."""
    parts = dict(_parts(metric))
    result = "result"
    while result in parts:
        result += "_"
    queries = [_query(name, part, returned=False) for name, part in parts.items()]
    return [*queries, _query(result, metric, returned=True)]


def _parts(metric: cloudwatch.IMetric) -> Iterator[tuple[str, cloudwatch.IMetric]]:
    """The metrics of an expression, by its variables; CDK sees to it that one name means one metric."""
    expression = metric.to_metric_config().math_expression
    for name, part in (expression.using_metrics if expression else {}).items():
        yield from _parts(part)
        yield name, part


def _query(name: str, metric: cloudwatch.IMetric, *, returned: bool) -> _Query:
    config = metric.to_metric_config()
    if config.math_expression is not None:
        return _Query(id=name, expression=config.math_expression.expression, return_data=returned)
    stat = config.metric_stat
    assert stat is not None  # noqa: S101 -- a metric is either an expression or has a statistic
    return _Query(
        id=name,
        return_data=returned,
        metric_stat=_QueryStat(
            stat=stat.statistic,
            unit=_unit(stat.unit_filter),
            metric=_QueryMetric(
                metric_name=stat.metric_name,
                namespace=stat.namespace,
                dimensions=[
                    _QueryDimension(name=each.name, value=each.value) for each in stat.dimensions or ()
                ],
            ),
        ),
    )
