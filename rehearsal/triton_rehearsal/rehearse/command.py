"""What `fleet rehearse` tells and shows: its steps, then the predictions, then what watches over them."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from triton_models.base.errors import FleetError
from triton_models.base.outcome import Outcome
from triton_models.deliver.results import Results
from triton_models.spec import model_names
from triton_rehearsal.rehearse.inventory import Inventory
from triton_rehearsal.rehearse.predictions import Prediction
from triton_rehearsal.rehearse.rehearsal import Deployed, Rehearsal

_MILLISECONDS = "{:,.0f}"
_LOG_WIDTH = 150
_SPINNER_WIDTH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalResult:
    """How a rehearsal went.

    Attributes:
        deployed: What `cdk deploy` made.
        results: What became of each model that was to be built.
        predictions: Every example, served and compared.
        inventory: What was scaled, alarmed and charted.
        seconds: The wall time of everything.
    """

    deployed: Deployed
    results: Results
    predictions: tuple[Prediction, ...]
    inventory: Inventory
    seconds: float

    @property
    def exit_code(self) -> int:
        """0 only if every model was built and every prediction equals its reference, and there is one."""
        right = self.predictions and all(prediction.passed for prediction in self.predictions)
        return 0 if right and not self.results.failed else 1

    def as_dict(self) -> dict[str, Any]:
        """The rehearsal as one JSON document."""
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
        """The rehearsal as tables."""
        # A log has no width of its own; a terminal has.
        width = None if sys.stdout.isatty() else _LOG_WIDTH
        console = Console(file=sys.stdout, highlight=False, width=width)
        with console.capture() as capture:
            for part in (
                _results_table(self.results),
                _predictions_table(self.predictions),
                _scaling_table(self.inventory),
                _alarms_table(self.inventory),
                _dashboard_table(self.inventory),
                self._result(),
            ):
                console.print(part)
        yield from capture.get().splitlines()

    def _result(self) -> Text:
        right = sum(prediction.passed for prediction in self.predictions)
        total = len(self.predictions)
        built, models = len(self.results.results) - len(self.results.failed), len(self.results.results)
        return Text(
            f"{built} of {models} models built, {right} of {total} predictions equal their reference, "
            f"after {self.seconds:.0f} s.",
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
    table = _table("Builds", "model", "result", "seconds", "artifact, or the reason")
    for result in results.results:
        said = Text(result.status, style="bold red" if result.failed else "green")
        if result.failed:
            said.append(f" in {result.step}")
        told = result.reason if result.failed else result.artifact
        table.add_row(result.model, said, f"{result.seconds:.1f}", told)
    table.caption = "read, built, checked, verified by a Triton server of the build's own, packed, published"
    return table


def _predictions_table(predictions: tuple[Prediction, ...]) -> Table:
    table = _table(
        "Predictions", "model", "artifact", "example", "cold ms", "warm ms", "result", "reference", "result"
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
            made.result,
            made.reference,
            _compared(made),
        )
    tolerance = max((made.tolerance for made in predictions), default=0.0)
    table.caption = f"equal: no component differs from the source framework by more than {tolerance:.0e}"
    return table


def _compared(made: Prediction) -> Text:
    if made.difference is None:
        return Text("answered", style="green")
    difference = f"{made.difference:.0e}"
    if made.passed:
        return Text(f"equal, {difference}", style="green")
    return Text(f"WRONG, {difference} > {made.tolerance:.0e}", style="bold red")


def _scaling_table(inventory: Inventory) -> Table:
    table = _table("Auto scaling", "scalable target", "instances", "tracks", "target")
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
    table = _table("Dashboard", "graph", "metrics")
    for widget in inventory.widgets:
        table.add_row(widget.title, ", ".join(widget.metrics))
    loaded, hits = inventory.loaded_models, inventory.cache_hit_ratio
    table.caption = (
        f"Peak models loaded (LoadedModelCount): {'no data' if loaded is None else format(loaded, 'g')}\n"
        f"Requests that hit a loaded model (ModelCacheHit): {'no data' if hits is None else f'{hits:.1%}'}"
    )
    return table


class Reporter:
    """Says each step on standard error: what is being done while it is done, and what came of it.

    Without a terminal it says nothing: the result is on standard output.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._console = Console(file=stream or sys.stderr, highlight=False)
        self._shows = self._console.is_terminal

    @contextmanager
    def step(self, title: str) -> Iterator[Callable[[str], None]]:
        """A step; what it yields takes a line of detail, shown next to the title while the step runs.

        The last line that starts with "=> " is what came of the step.
        """
        start = time.perf_counter()
        result = ""
        status = self._console.status(title) if self._shows else None

        def detail(line: str) -> None:
            nonlocal result
            if line.startswith("=> "):
                result = line.removeprefix("=> ")
            elif status is not None and line.strip():
                room = max(0, self._console.width - len(title) - _SPINNER_WIDTH)
                status.update(Text.assemble(title, (f"  {line.strip()}"[:room], "dim")))

        shown: AbstractContextManager[Any] = status if status is not None else nullcontext()
        with shown:
            yield detail
        if self._shows:
            seconds = time.perf_counter() - start
            self._console.print(
                Text.assemble(("ok", "green"), f" {seconds:5.1f} s  {title}  ", (result, "dim")),
                no_wrap=True,
                overflow="ellipsis",
            )


def run(arguments: argparse.Namespace) -> Outcome:
    """Rehearse: deploy, build, publish, serve, verify; with `--stay`, keep it all running until interrupted.

    Raises:
        FleetError: A step failed. Everything that was started is gone by then.
        SystemExit: It was interrupted while it stayed; with the rehearsal's exit code.
    """
    reporter = Reporter()
    _end_like_an_interrupt()
    start = time.perf_counter()
    models = model_names() if arguments.all else arguments.names
    with Rehearsal(project=_project_root(), port=arguments.port, models=models) as rehearsal:
        rehearsed = _rehearse(rehearsal, reporter, start)
        if arguments.stay:
            _show(rehearsed, rehearsal.exports(), as_json=arguments.json)
            _wait_for_interrupt()
    if arguments.stay:
        sys.exit(rehearsed.exit_code)  # all there was to show has been shown
    return rehearsed


def _rehearse(rehearsal: Rehearsal, reporter: Reporter, start: float) -> RehearsalResult:
    with reporter.step("Deploy with the CDK to an embedded AWS") as say:
        deployed = rehearsal.deploy(say)
        say(f"=> {deployed.resources} resources, none skipped")
    with reporter.step("Build, verify and publish the models with the build job's buildspec") as say:
        results = rehearsal.build(say)
        counts = ", ".join(f"{count} {result}" for result, count in results.counts().items() if count)
        say(f"=> {counts}, into {deployed.repository}")
    with reporter.step("Start a Triton server for the endpoint") as say:
        rehearsal.serve()
        say(f"=> {deployed.endpoint}")
    with reporter.step("Invoke every model and compare with its source") as say:
        predictions = []
        for prediction in rehearsal.predictions():
            say(f"{prediction.model}: {prediction.example}")
            predictions.append(prediction)
    return RehearsalResult(
        deployed=deployed,
        results=results,
        predictions=tuple(predictions),
        inventory=rehearsal.inventory(),
        seconds=time.perf_counter() - start,
    )


def _show(rehearsed: RehearsalResult, exports: Mapping[str, str], *, as_json: bool) -> None:
    """Show the result now, since what returns only after the wait comes too late to be of use."""
    if as_json:
        lines = [json.dumps({**rehearsed.as_dict(), "exports": dict(exports)}, indent=2)]
    else:
        commands = [f"export {name}={value}" for name, value in exports.items()]
        lines = [
            *rehearsed.lines(),
            "",
            "Running. Point any AWS SDK or the AWS command line here:",
            "",
            *commands,
            "",
            "Ctrl-C ends it.",
        ]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def _wait_for_interrupt() -> None:
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


def _end_like_an_interrupt() -> None:
    """Let every polite request to end unwind the stack, so that everything started is closed.

    SIGINT too: a shell that starts a command in the background has it ignored, and Python leaves that so.
    SIGHUP stays ignored where it is, for that is what nohup is for.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, interrupt)


def _project_root() -> Path:
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "cdk.json").is_file():
            return folder
    raise FleetError.of(
        what=f"no cdk.json in {here} or above it",
        where="the working directory",
        expected="a clone of the repository",
        why="the rehearsal deploys the stacks that cdk.json names",
        fix="change into the repository and run it again",
    )
