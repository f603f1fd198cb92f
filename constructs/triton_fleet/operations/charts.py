"""The parts of a dashboard: a page is 24 columns wide, a row is as high as its charts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from aws_cdk import aws_cloudwatch as cloudwatch

FULL_WIDTH = 24
PERCENT = cloudwatch.YAxisProps(min=0, max=100, label="%", show_units=False)
SHARE = cloudwatch.YAxisProps(min=0, label="%", show_units=False)
MILLISECONDS = cloudwatch.YAxisProps(min=0, label="ms", show_units=False)
COUNT = cloudwatch.YAxisProps(min=0, show_units=False)
DOLLARS = cloudwatch.YAxisProps(min=0, label="USD", show_units=False)
Line = cloudwatch.HorizontalAnnotation
Row = list[cloudwatch.IWidget]

_CHART_HEIGHT = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart without its width."""

    title: str
    metrics: tuple[cloudwatch.IMetric, ...]
    axis: cloudwatch.YAxisProps
    lines: Sequence[Line]

    def widget(self, *, width: int) -> cloudwatch.GraphWidget:
        """Return the chart, this many columns wide."""
        return cloudwatch.GraphWidget(
            title=self.title,
            left=list(self.metrics),
            left_y_axis=self.axis,
            left_annotations=list(self.lines),
            height=_CHART_HEIGHT,
            width=width,
        )


def chart(
    title: str, *metrics: cloudwatch.IMetric, axis: cloudwatch.YAxisProps = COUNT, lines: Sequence[Line] = ()
) -> Chart:
    """Return a chart of metrics over time, with horizontal lines."""
    return Chart(title=title, metrics=metrics, axis=axis, lines=lines)


def durations(title: str, metric: Callable[..., cloudwatch.IMetric]) -> Chart:
    """Return a chart of the average and the maximum of a duration, in milliseconds."""
    return chart(
        title,
        metric(statistic="Average", label="average"),
        metric(statistic="Maximum", label="slowest"),
        axis=MILLISECONDS,
    )


def row(*charts: Chart) -> Row:
    """Return charts side by side, equally wide; the last fills the rest of the page."""
    width = FULL_WIDTH // len(charts)
    return [
        *(each.widget(width=width) for each in charts[:-1]),
        charts[-1].widget(width=FULL_WIDTH - width * (len(charts) - 1)),
    ]


def numbers(*values: tuple[str, cloudwatch.IMetric]) -> Row:
    """Return the newest value of each metric, side by side under its title."""
    return [
        cloudwatch.SingleValueWidget(
            title=title, metrics=[metric], sparkline=True, height=3, width=FULL_WIDTH // len(values)
        )
        for title, metric in values
    ]


def question(text: str, reading: str, facts: Iterable[str] = ()) -> Row:
    """Return the heading of a section, with an explanation and known facts."""
    listed = [f"* {fact}" for fact in facts]
    return [
        cloudwatch.TextWidget(
            markdown="\n".join([f"## {text}", reading, *([""] if listed else []), *listed]),
            width=FULL_WIDTH,
            height=3 + len(listed),
            background=cloudwatch.TextWidgetBackground.TRANSPARENT,
        )
    ]


def log_queries(log_group_name: str, *queries: tuple[str, Sequence[str]]) -> Row:
    """Return queries of a log group side by side, as tables."""
    return [
        cloudwatch.LogQueryWidget(
            title=title,
            log_group_names=[log_group_name],
            query_lines=list(lines),
            view=cloudwatch.LogQueryVisualizationType.TABLE,
            height=_CHART_HEIGHT,
            width=FULL_WIDTH // len(queries),
        )
        for title, lines in queries
    ]
