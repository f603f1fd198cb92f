"""CloudWatch Logs.

moto's gap: PutMetricFilter adds a second filter with the same name instead of replacing the first.
"""

from __future__ import annotations

from moto.logs.metric_filters import MetricFilters

from triton_aws.moto_gaps import patch

_moto_add = MetricFilters.add_filter


def _add_filter(
    self: MetricFilters,
    filter_name: str,
    filter_pattern: str,
    log_group_name: str,
    metric_transformations: str,
) -> None:
    self.delete_filter(filter_name, log_group_name)
    _moto_add(self, filter_name, filter_pattern, log_group_name, metric_transformations)


def install() -> None:
    """Close the gap."""
    patch.replace(MetricFilters, add_filter=_add_filter)
