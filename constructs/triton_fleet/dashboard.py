"""The dashboard, in the order in which a person on call asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from triton_fleet.alarms import EndpointAlarms
from triton_fleet.endpoint import MultiModelEndpoint
from triton_fleet.metrics import EndpointMetrics
from triton_fleet.scaling import EndpointScaling

_FULL_WIDTH = 24
_CHART_HEIGHT = 6
_PERCENT = cloudwatch.YAxisProps(min=0, max=100, label="%", show_units=False)
_MILLISECONDS = cloudwatch.YAxisProps(min=0, label="ms", show_units=False)
_COUNT = cloudwatch.YAxisProps(min=0, show_units=False)
_Row = list[cloudwatch.IWidget]


class EndpointDashboard(Construct):
    """One page about an endpoint: is it serving, is it fast, is the cache working, is it full, is it scaling?

    Attributes:
        dashboard: The dashboard; add widgets of your own to it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: MultiModelEndpoint,
        alarms: EndpointAlarms | None = None,
        scaling: EndpointScaling | None = None,
    ) -> None:
        """Create the dashboard, under the endpoint's name.

        Args:
            scope: The parent construct.
            construct_id: The construct's id.
            endpoint: What to show.
            alarms: Its alarms: their states come first, and each threshold is a line in its chart.
            scaling: Its auto scaling: the limits of its capacity are lines in the chart of instances.
        """
        super().__init__(scope, construct_id)
        self._alarms = alarms
        self._scaling = scaling
        self.dashboard = cloudwatch.Dashboard(
            self,
            "Resource",
            dashboard_name=endpoint.name,
            default_interval=Duration.hours(3),
            widgets=[
                *self._states(),
                *self._serving(endpoint.metrics),
                *self._fast(endpoint.metrics),
                *self._caching(endpoint.metrics),
                *self._full(endpoint.metrics),
                *self._sized(endpoint.metrics),
            ],
        )

    def _states(self) -> list[_Row]:
        if self._alarms is None:
            return []
        return [
            [
                cloudwatch.AlarmStatusWidget(
                    title="Alarms",
                    alarms=[self._alarms.paging, *self._alarms.alarms.values()],
                    width=_FULL_WIDTH,
                    height=3,
                )
            ]
        ]

    def _serving(self, metrics: EndpointMetrics) -> list[_Row]:
        errors = ("Invocation4XXErrors", "Invocation5XXErrors", "InvocationModelErrors")
        return [
            _question("Is it serving?"),
            _row(
                _chart("Requests a minute", metrics.metric("Invocations")),
                _chart("Failed requests a minute", *(metrics.metric(name) for name in errors)),
                _chart(
                    "Failed requests, % of all",
                    *(metrics.error_percent(name) for name in errors),
                    axis=cloudwatch.YAxisProps(min=0, label="%", show_units=False),
                    lines=self._thresholds("ServerErrors", "ModelErrors"),
                ),
            ),
        ]

    def _fast(self, metrics: EndpointMetrics) -> list[_Row]:
        return [
            _question("Is it fast?"),
            _row(
                _chart(
                    "Model latency",
                    *(metrics.milliseconds("ModelLatency", statistic=each) for each in ("p50", "p90", "p99")),
                    axis=_MILLISECONDS,
                    lines=self._thresholds("Latency"),
                ),
                _chart(
                    "SageMaker's overhead, loading included",
                    *(metrics.milliseconds("OverheadLatency", statistic=each) for each in ("p50", "p99")),
                    axis=_MILLISECONDS,
                ),
                _chart("Concurrent requests", metrics.metric("ConcurrentRequestsPerModel")),
            ),
        ]

    def _caching(self, metrics: EndpointMetrics) -> list[_Row]:
        return [
            _question("Is the cache working?"),
            _row(
                _chart("Loaded models", metrics.metric("LoadedModelCount"), metrics.loaded_models()),
                _chart("Requests whose model was loaded", metrics.cache_hit_percent(), axis=_PERCENT),
                _chart("Evictions a minute", metrics.evictions()),
            ),
            _row(
                _durations("Wait for a model", "ModelLoadingWaitTime", metrics),
                _durations("Download from S3", "ModelDownloadingTime", metrics),
                _durations("Load into Triton", "ModelLoadingTime", metrics),
                _durations("Unload from Triton", "ModelUnloadingTime", metrics),
            ),
        ]

    def _full(self, metrics: EndpointMetrics) -> list[_Row]:
        return [
            _question("Is it full?"),
            _row(
                _chart("GPU", metrics.gpu_percent(), axis=_PERCENT),
                _chart(
                    "GPU memory",
                    metrics.gpu_memory_percent(),
                    axis=_PERCENT,
                    lines=self._thresholds("GpuMemory"),
                ),
                _chart(
                    "Disk",
                    metrics.metric("DiskUtilization", statistic="Maximum", label="fullest instance"),
                    axis=_PERCENT,
                    lines=self._thresholds("Disk"),
                ),
                _chart("Host", metrics.metric("MemoryUtilization"), metrics.cpu_percent(), axis=_PERCENT),
            ),
        ]

    def _sized(self, metrics: EndpointMetrics) -> list[_Row]:
        return [
            _question("Is it scaling?"),
            _row(
                _chart("Instances", metrics.instances(), lines=self._limits()),
                _chart(
                    "Requests a minute an instance",
                    metrics.metric("InvocationsPerInstance"),
                    lines=self._target("Invocations"),
                ),
                _chart(
                    "GPU, all of an instance added up",
                    metrics.metric("GPUUtilization"),
                    lines=self._target("GpuUtilization"),
                ),
            ),
        ]

    def _thresholds(self, *names: str) -> list[cloudwatch.HorizontalAnnotation]:
        if self._alarms is None:
            return []
        return [self._alarms.alarms[name].to_annotation() for name in names]

    def _limits(self) -> list[cloudwatch.HorizontalAnnotation]:
        if self._scaling is None:
            return []
        limits = {"smallest": self._scaling.min_capacity, "largest": self._scaling.max_capacity}
        return [
            cloudwatch.HorizontalAnnotation(value=value, label=f"{name} capacity")
            for name, value in limits.items()
        ]

    def _target(self, policy: str) -> list[cloudwatch.HorizontalAnnotation]:
        if self._scaling is None:
            return []
        gpu_count = self._scaling.endpoint.instance.gpu_count
        return [
            cloudwatch.HorizontalAnnotation(value=target.value(gpu_count=gpu_count), label="scaling target")
            for target in self._scaling.targets
            if target.policy == policy
        ]


def _question(text: str) -> _Row:
    return [
        cloudwatch.TextWidget(
            markdown=f"## {text}",
            width=_FULL_WIDTH,
            height=1,
            background=cloudwatch.TextWidgetBackground.TRANSPARENT,
        )
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chart:
    """A chart before it knows how much of the row it gets."""

    title: str
    metrics: tuple[cloudwatch.IMetric, ...]
    axis: cloudwatch.YAxisProps
    lines: Sequence[cloudwatch.HorizontalAnnotation]

    def widget(self, *, width: int) -> cloudwatch.GraphWidget:
        return cloudwatch.GraphWidget(
            title=self.title,
            left=list(self.metrics),
            left_y_axis=self.axis,
            left_annotations=list(self.lines),
            height=_CHART_HEIGHT,
            width=width,
        )


def _chart(
    title: str,
    *metrics: cloudwatch.IMetric,
    axis: cloudwatch.YAxisProps = _COUNT,
    lines: Sequence[cloudwatch.HorizontalAnnotation] = (),
) -> _Chart:
    return _Chart(title=title, metrics=metrics, axis=axis, lines=lines)


def _durations(title: str, name: str, metrics: EndpointMetrics) -> _Chart:
    return _chart(
        title,
        metrics.milliseconds(name, statistic="Average", label="average"),
        metrics.milliseconds(name, statistic="Maximum", label="slowest"),
        axis=_MILLISECONDS,
    )


def _row(*charts: _Chart) -> _Row:
    """Charts side by side, equally wide."""
    return [chart.widget(width=_FULL_WIDTH // len(charts)) for chart in charts]
