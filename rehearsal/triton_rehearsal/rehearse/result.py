"""The result of a rehearsal, as tables and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from triton_models.deliver.results import Results
from triton_rehearsal.rehearse.inventory import Inventory
from triton_rehearsal.rehearse.predictions import Prediction
from triton_rehearsal.rehearse.rehearsal import Deployed

_MILLISECONDS = "{:,.0f}"
_LOG_WIDTH = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalResult:
    """The result of a rehearsal.

    Attributes:
        deployed: The outputs of `cdk deploy`.
        results: The build result of each model.
        predictions: Every example, served and compared.
        inventory: Scaling, alarms and dashboard.
        seconds: The wall time.
    """

    deployed: Deployed
    results: Results
    predictions: tuple[Prediction, ...]
    inventory: Inventory
    seconds: float

    @property
    def exit_code(self) -> int:
        """0 if every model was built and every prediction matches; otherwise, or without predictions, 1."""
        right = self.predictions and all(prediction.passed for prediction in self.predictions)
        return 0 if right and not self.results.failed else 1

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON-ready data."""
        return {
            "passed": self.exit_code == 0,
            "seconds": round(self.seconds, 1),
            "deployed": asdict(self.deployed),
            "results": self.results.as_dict()["models"],
            "predictions": [
                {**asdict(prediction), "passed": prediction.passed} for prediction in self.predictions
            ],
            "inventory": asdict(self.inventory),
        }

    def lines(self) -> Iterator[str]:
        """Yield the result as tables."""
        # Only a terminal has a width; a log has none.
        width = None if sys.stdout.isatty() else _LOG_WIDTH
        console = Console(file=sys.stdout, highlight=False, width=width)
        with console.capture() as capture:
            for part in (
                _results_table(self.results),
                _predictions_table(self.predictions),
                _scaling_table(self.inventory),
                _alarms_table(self.inventory),
                _dashboard_table(self.inventory),
                self._summary(),
            ):
                console.print(part)
        yield from capture.get().splitlines()

    def _summary(self) -> Text:
        right = sum(prediction.passed for prediction in self.predictions)
        total = len(self.predictions)
        built, models = len(self.results.results) - len(self.results.failed), len(self.results.results)
        return Text(
            f"{built} of {models} models built, {right} of {total} predictions match their reference, "
            f"in {self.seconds:.0f} s.",
            style="bold green" if self.exit_code == 0 else "bold red",
        )


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", header_style="dim", box=box.SIMPLE_HEAD
    )
    for column in columns:
        table.add_column(column, overflow="fold", justify="right" if column.endswith(" ms") else "left")
    table.caption_justify = "left"
    return table


def _results_table(results: Results) -> Table:
    table = _table("Builds", "model", "result", "seconds", "artifact or reason")
    for result in results.results:
        said = Text(result.status, style="bold red" if result.failed else "green")
        if result.failed:
            said.append(f" in {result.step}")
        outcome = result.reason if result.failed else result.artifact
        table.add_row(result.model, said, f"{result.seconds:.1f}", outcome)
    table.caption = "Each model was built, checked, verified by a Triton server, packed and published."
    return table


def _predictions_table(predictions: tuple[Prediction, ...]) -> Table:
    table = _table(
        "Predictions", "model", "artifact", "example", "cold ms", "warm ms", "output", "reference", "result"
    )
    shown: set[str] = set()
    for made in predictions:
        first = made.model not in shown
        shown.add(made.model)
        table.add_row(
            made.model if first else "",
            made.artifact.removeprefix(f"{made.model}-").removesuffix(".tar.gz") if first else "",
            made.example,
            _MILLISECONDS.format(made.cold_ms),
            _MILLISECONDS.format(made.warm_ms),
            made.output,
            made.reference,
            _compared(made),
        )
    tolerance = max((made.tolerance for made in predictions), default=0.0)
    table.caption = f"equal: every value is within {tolerance:.0e} of the source framework's."
    return table


def _compared(made: Prediction) -> Text:
    if made.difference is None:
        return Text("answered", style="green")
    difference = f"{made.difference:.0e}"
    if made.passed:
        return Text(f"equal, {difference}", style="green")
    return Text(f"WRONG, {difference} > {made.tolerance:.0e}", style="bold red")


def _scaling_table(inventory: Inventory) -> Table:
    table = _table("Auto scaling", "scalable target", "instances", "metric", "target")
    for target in inventory.targets:
        for policy in target.policies:
            table.add_row(
                target.resource, f"{target.minimum} to {target.maximum}", policy.metric, f"{policy.target:g}"
            )
    return table


def _alarms_table(inventory: Inventory) -> Table:
    table = _table("Alarms", "alarm", "condition")
    for alarm in inventory.alarms:
        table.add_row(alarm.name, alarm.condition)
    return table


def _dashboard_table(inventory: Inventory) -> Table:
    table = _table("Dashboard", "widget", "metrics")
    for widget in inventory.widgets:
        table.add_row(widget.title, ", ".join(widget.metrics))
    peak, hits = inventory.peak_models_loaded, inventory.cache_hit_ratio
    table.caption = (
        f"Peak models loaded: {'no data' if peak is None else format(peak, 'g')}\n"
        f"Requests that hit a loaded model: {'no data' if hits is None else f'{100 * hits:.1f} %'}"
    )
    return table
