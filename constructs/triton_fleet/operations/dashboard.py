"""The dashboard, in the order of questions of a person on call."""

from __future__ import annotations

from collections.abc import Iterator

from aws_cdk import Annotations as Advice
from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from triton_fleet.endpoint.base import Endpoint
from triton_fleet.endpoint.multi_model import MultiModelEndpoint
from triton_fleet.operations.alarms import EndpointAlarms, same_variant
from triton_fleet.operations.charts import (
    COUNT,
    DOLLARS,
    FULL_WIDTH,
    MILLISECONDS,
    PERCENT,
    SHARE,
    Chart,
    Line,
    Row,
    chart,
    durations,
    log_queries,
    numbers,
    question,
    row,
)
from triton_fleet.operations.scaling.endpoint_scaling import EndpointScaling
from triton_fleet.operations.signals import WORST_MODELS, ModelSignals
from triton_fleet.parts.arguments.checks import number_range
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.metrics.published import MINUTE, Failure, math_number
from triton_fleet.parts.metrics.server_log import FAILED_LOADS, MOST_LOADED, SLOWEST_UNLOADS
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.facts.cost import PRICES, Estimate, Price

HOURLY_PRICE = Check(id="hourly-price", source=FROM_ARGUMENTS)
PRICE_OF_ANOTHER_REGION = "triton-fleet:price-of-another-region"
"""The id of the warning of a cost that is computed with the price of another region."""

# What a scaling target follows: the policy, the metric and the chart's title.
_FOLLOWED = (
    ("Invocations", "InvocationsPerInstance", "Requests per minute per instance"),
    ("GpuUtilization", "GPUUtilization", "GPU utilization, summed per instance"),
    ("GpuMemoryUtilization", "GPUMemoryUtilization", "GPU memory utilization, summed per instance"),
    ("CpuUtilization", "CPUUtilization", "CPU utilization, summed per instance"),
)


@typed
class EndpointDashboard(Construct):
    """One page about an endpoint, or one of its variants.

    First the states of the alarms and the numbers that say most. Then a section for each question: is it
    serving, is it fast, is the cache working, is it full, is it scaling, what does it cost? Each begins with
    how to read it. Sections that do not apply, such as the GPU's, are omitted.

    Attributes:
        dashboard: The dashboard; add widgets of your own to it.
        cost: The monthly cost of the variant; None if the price is unknown.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: Endpoint,
        variant: str | None = None,
        alarms: EndpointAlarms | None = None,
        scaling: EndpointScaling | None = None,
        models: int = 0,
        hourly_price_usd: float | None = None,
        signals: ModelSignals | None = None,
    ) -> None:
        """Create the dashboard, under the endpoint's name.

        Args:
            variant: The name of one of its variants; None for the first, which is most endpoints' only one.
            alarms: Its alarms: their states come first, and each threshold is a line in its chart.
            scaling: Its auto scaling: the limits of its capacity are lines in the chart of instances.
            models: The number of models on the endpoint, to show the cost of each; 0 if it is not known.
            hourly_price_usd: The price of an instance per hour. By default the on-demand price in
                `triton_models.facts.cost`, with its region and date; without a price, cost is shown in
                instances and their seconds.
            signals: Its signals, to show the worst models, and those that are watched.
        """
        super().__init__(scope, construct_id)
        report = Report(self.node.path)
        hourly_price(report.at("hourly_price_usd"), known(hourly_price_usd))
        number_range(report.at("models"), known(models), least=0, most=None, name="models")
        self._variant = endpoint.variant(variant)
        watched = f"{endpoint.literal_name}/{self._variant.name}"
        same_variant(report, watched, alarms, argument="alarms")
        same_variant(report, watched, scaling, argument="scaling")
        same_variant(report, watched, signals, argument="signals")
        report.raise_if_any()
        self._multi_model = isinstance(endpoint, MultiModelEndpoint)
        self._log_info = endpoint.server.log_info is not False
        self._log_group_name = f"/aws/sagemaker/Endpoints/{endpoint.literal_name}"
        self._alarms = alarms
        self._scaling = scaling
        self._signals = signals
        self._price = PRICES.get(self._variant.instance.name)
        if hourly_price_usd is not None:
            self._price = Price(usd_per_hour=hourly_price_usd, source="as given")
        self.cost = self._estimate(models, region=known(Stack.of(endpoint).region))
        if self.cost is not None and self.cost.other_region:
            Advice.of(self).add_warning_v2(
                PRICE_OF_ANOTHER_REGION,
                f"The cost is computed with the price of {self.cost.price.region}, and "
                f"{self.cost.other_region} may differ. Set hourly_price_usd.",
            )
        self.dashboard = cloudwatch.Dashboard(
            self,
            "Resource",
            dashboard_name=endpoint._name_of(self._variant),
            default_interval=Duration.hours(3),
            widgets=[
                *self._states(),
                *(self._queue_sections() if self._variant.asynchronous else self._sections()),
            ],
        )

    def _sections(self) -> Iterator[Row]:
        yield from self._at_a_glance()
        yield from self._serving()
        yield from self._fast()
        yield from self._models()
        if self._multi_model:
            yield from self._caching()
        yield from self._full()
        yield from self._sized()
        yield from self._costing()

    def _queue_sections(self) -> Iterator[Row]:
        """Return the charts of an asynchronous endpoint, for which SageMaker does not count requests."""
        metrics = self._variant
        yield numbers(
            ("Requests in the queue", metrics.metric_approximate_backlog_size()),
            ("Oldest request, s", metrics.metric_approximate_age_of_oldest_request()),
            ("Failures per minute", metrics.metric_invocation_failures()),
        )
        yield question(
            "Is it keeping up?",
            "A backlog that shrinks again is normal. If the oldest request gets older, there are too few "
            "instances, or none. Triton's messages about failures are in the folder of failures.",
        )
        yield row(
            chart("Requests in the queue", metrics.metric_approximate_backlog_size()),
            chart(
                "Age of the oldest request, s",
                metrics.metric_approximate_age_of_oldest_request(),
                lines=self._thresholds("Waiting"),
            ),
            chart("Failures per minute", metrics.metric_invocation_failures()),
        )
        yield question(
            "Is it scaling?",
            "Instances are added while the backlog is above its target for some minutes. Without instances "
            "there is no backlog per instance: the first request then starts one, which takes minutes.",
        )
        yield row(
            chart(
                "Requests in the queue per instance",
                metrics.metric_approximate_backlog_size_per_instance(),
                lines=self._targets("Backlog"),
            ),
            chart("Requests wait without an instance", metrics.metric_has_backlog_without_capacity()),
        )
        yield question(
            "Is it fast?", "Model latency is Triton's time for a request, without the wait in the queue."
        )
        yield row(
            chart(
                "Model latency",
                *(metrics.metric_model_latency(statistic=each, label=each) for each in ("p50", "p90", "p99")),
                axis=MILLISECONDS,
            )
        )
        yield from self._full()

    def _states(self) -> Iterator[Row]:
        if self._alarms is None:
            return
        yield [
            cloudwatch.AlarmStatusWidget(
                title="Alarms",
                alarms=[self._alarms.paging, *self._alarms.alarms.values()],
                width=FULL_WIDTH,
                height=3,
            )
        ]

    def _at_a_glance(self) -> Iterator[Row]:
        metrics = self._variant
        serving = (
            ("Requests", metrics.metric_invocations()),
            ("Server errors, %", metrics.metric_error_rate("Invocation5XXErrors")),
        )
        caching = (
            ("Loaded models per instance", metrics.metric_loaded_model_count()),
            ("Requests that hit a loaded model, %", metrics.metric_model_cache_hit()),
        )
        yield numbers(*(caching if self._multi_model else ()), *serving)

    def _serving(self) -> Iterator[Row]:
        metrics = self._variant
        errors: tuple[Failure, ...] = ("Invocation4XXErrors", "Invocation5XXErrors", "InvocationModelErrors")
        yield question(
            "Is it serving?",
            "5XX are failures of SageMaker: containers and instances. Model errors come from Triton: models "
            "that cannot be loaded, or bad input. 4XX are mistakes of clients, except 429: the model was "
            "still loading.",
        )
        yield row(
            chart("Requests per minute", metrics.metric_invocations()),
            chart("Failed requests per minute", *(metrics.metric(name) for name in errors)),
            chart(
                "Failed requests, %",
                *(metrics.metric_error_rate(name) for name in errors),
                axis=SHARE,
                lines=self._thresholds("ServerErrors", "ModelErrors"),
            ),
        )

    def _fast(self) -> Iterator[Row]:
        metrics = self._variant
        hardware = "GPU" if metrics.instance.gpu_count else "CPU"
        yield question(
            "Is it fast?",
            "Model latency is Triton's time for a request, without loading. The overhead is SageMaker's "
            "time, including the wait while a model loads. "
            f"If latency rises while the {hardware} is busy, there are too few instances. "
            f"If it rises while the {hardware} is idle, look at the cache.",
        )
        yield row(
            chart(
                "Model latency",
                *(metrics.metric_model_latency(statistic=each, label=each) for each in ("p50", "p90", "p99")),
                axis=MILLISECONDS,
                lines=self._thresholds("Latency"),
            ),
            chart(
                "SageMaker's overhead, including loading",
                *(metrics.metric_overhead_latency(statistic=each, label=each) for each in ("p50", "p99")),
                axis=MILLISECONDS,
            ),
            chart("Concurrent requests", metrics.metric_concurrent_requests_per_model()),
        )

    def _models(self) -> Iterator[Row]:
        if (signals := self._signals) is None:
            return
        yield question(
            "Which models fail, or are slow?",
            "These are the figures of clients, after their retries. The table adds up the minutes in which a "
            "model was among the worst 20: by failures, by p99, by the wait for its load, or by total time. "
            "`fleet top` has all models and minutes, and the kinds of errors.",
        )
        charts = [
            chart("Models that fail", signals.metric_models_failing(), lines=self._thresholds("ModelFailing"))
        ]
        if signals.watch:
            limits = signals.thresholds
            charts += [
                chart(
                    "Watched models, failed calls, %",
                    *map(signals.metric_failed, signals.watch),
                    axis=SHARE,
                    lines=[Line(value=limits.model_error_percent, label="alarm")],
                ),
                chart(
                    "Watched models, p99",
                    *map(signals.metric_latency_p99, signals.watch),
                    axis=MILLISECONDS,
                    lines=[Line(value=limits.latency_p99.to_milliseconds(), label="alarm")],
                ),
            ]
        yield row(*charts)
        yield log_queries(
            signals.function.log_group.log_group_name, ("Worst models, as clients see them", WORST_MODELS)
        )

    def _caching(self) -> Iterator[Row]:
        metrics = self._variant
        blamed = "the models at the top of the table evict each other"
        yield question(
            "Is the cache working?",
            "The number of loaded models rises after a deployment, until the cache is full. Evictions are "
            "normal as long as most requests hit a loaded model. Evictions while hits fall are thrashing, "
            f"and {blamed if self._log_info else 'log_info would show which models evict each other'}.",
        )
        all_models = metrics.metric_loaded_model_count(statistic="Sum", label="models, all instances")
        loads = metrics.metric_model_loading_time(statistic="SampleCount", label="loads")
        evictions = metrics.metric_model_unloading_time(statistic="SampleCount", label="evictions")
        yield row(
            chart("Loaded models", metrics.metric_loaded_model_count(), all_models),
            chart("Requests that hit a loaded model", metrics.metric_model_cache_hit(), axis=PERCENT),
            chart("Loads and evictions per minute", loads, evictions),
        )
        yield row(
            durations("Wait for a model", metrics.metric_model_loading_wait_time),
            durations("Download from S3", metrics.metric_model_downloading_time),
            durations("Load into Triton", metrics.metric_model_loading_time),
            durations("Unload from Triton", metrics.metric_model_unloading_time),
        )
        tables = [("Failed loads, with the reason", FAILED_LOADS)]
        if self._log_info:
            tables += [("Models loaded most often", MOST_LOADED), ("Slowest to unload", SLOWEST_UNLOADS)]
        yield log_queries(self._log_group_name, *tables)

    def _full(self) -> Iterator[Row]:
        metrics = self._variant
        cache = "GPU memory" if self._variant.instance.gpu_count else "Memory"
        yield question(
            "Is it full?",
            f"{cache} that is nearly full is normal for a cache, except with thrashing. If the disk is full, "
            "SageMaker deletes models that are not loaded, and downloads them again. Host memory limits how "
            "many models can be loaded at the same time.",
        )
        charts = [
            chart(
                "Disk",
                metrics.metric_disk_utilization(statistic="Maximum", label="fullest instance"),
                axis=PERCENT,
                lines=self._thresholds("Disk"),
            ),
            chart(
                "Host", metrics.metric_memory_utilization(), metrics.metric_cpu_utilization(), axis=PERCENT
            ),
        ]
        if self._variant.instance.gpu_count:
            memory = chart(
                "GPU memory",
                metrics.metric_gpu_memory_utilization(),
                axis=PERCENT,
                lines=self._thresholds("GpuMemory"),
            )
            charts = [chart("GPU", metrics.metric_gpu_utilization(), axis=PERCENT), memory, *charts]
        yield row(*charts)

    def _sized(self) -> Iterator[Row]:
        yield question(
            "Is it scaling?",
            "Instances are added, up to the maximum capacity, while a metric is above its target for some "
            "minutes. If none are added, AWS has no capacity, or the quota is used up. The number of "
            "instances is calculated from requests: without requests it is unknown.",
        )
        limits = []
        if self._scaling is not None:
            limits = [
                Line(value=self._scaling.min_capacity, label="minimum capacity"),
                Line(value=self._scaling.max_capacity, label="maximum capacity"),
            ]
        instances = self._variant.metric_instance_count()
        yield row(chart("Instances", instances, lines=limits), *self._followed())

    def _costing(self) -> Iterator[Row]:
        instances, rate = self._variant.metric_instance_count(), self._variant.metric_invocations()
        yield question(
            "What does it cost?",
            "Instances are billed by the second, even when idle. If the cost does not fall with the "
            "requests, capacity is idle: lower the minimum capacity, or raise the target.",
            self.cost.lines() if self.cost is not None else (),
        )
        if self._price is None:
            unit, an_hour, a_thousand = "instances", "instances", "instances * 60 / rate * 1000"
            titles = ("Billed instances", "Instance seconds per 1,000 requests")
        else:
            price = math_number(self._price.usd_per_hour)
            unit, an_hour = "USD", f"instances * {price}"
            a_thousand = f"instances * {price} / 60 / rate * 1000"
            titles = ("Cost per hour (USD)", "Cost per 1,000 requests (USD)")
        yield row(
            _costs(titles[0], an_hour, unit=unit, instances=instances),
            _costs(titles[1], a_thousand, unit=unit, instances=instances, rate=rate),
        )

    def _estimate(self, models: int, *, region: str | None) -> Estimate | None:
        """Return the monthly cost; None without a price, or where a number is not known yet."""
        price, first = self._price, self._variant.initial_instance_count
        least = most = first
        if self._scaling is not None:
            least, most = self._scaling.min_capacity, self._scaling.max_capacity
        if price is None or any(known(value) is None for value in (least, most, models, price.usd_per_hour)):
            return None
        return Estimate(
            instance_type=self._variant.instance.name,
            price=price,
            min_instances=least,
            max_instances=most,
            models=models,
            region=region,
        )

    def _thresholds(self, *names: str) -> list[Line]:
        if self._alarms is None:
            return []
        return [self._alarms._lines[name] for name in names if name in self._alarms._lines]

    def _followed(self) -> Iterator[Chart]:
        """Return the metrics that auto scaling follows; without auto scaling, requests and utilization."""
        instance = self._variant.instance
        targets = self._scaling.targets if self._scaling is not None else ()
        busy = "GpuUtilization" if instance.gpu_count else "CpuUtilization"
        policies = {target._policy for target in targets} | {"Invocations", busy}
        for policy, name, title in _FOLLOWED:
            if policy in policies:
                yield chart(title, self._variant.metric(name), lines=self._targets(policy))

    def _targets(self, policy: str) -> list[Line]:
        values = [
            target._value(self._variant.instance)
            for target in (self._scaling.targets if self._scaling is not None else ())
            if target._policy == policy
        ]
        return [Line(value=value, label="scaling target") for value in values]


def _costs(title: str, expression: str, *, unit: str, **metrics: cloudwatch.IMetric) -> Chart:
    cost = cloudwatch.MathExpression(
        expression=expression, using_metrics=metrics, label=title.lower(), period=MINUTE
    )
    return chart(title, cost, axis=DOLLARS if unit == "USD" else COUNT)


def hourly_price(report: Report, usd: float | None) -> None:
    """Report problems with the price of an instance per hour; None is not given, or not known yet."""
    if usd is None or usd > 0:
        return
    report(
        HOURLY_PRICE,
        f"the price is {usd:g}",
        fix="use a number above 0, such as AWS's price for the type in your region, or omit it",
        why="every cost that is calculated from it would be wrong",
    )
