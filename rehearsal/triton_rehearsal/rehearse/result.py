"""The result of a rehearsal, as tables and as JSON."""

from __future__ import annotations

import math
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from triton_models.artifact.layout import digest_of_artifact
from triton_models.base.errors import Problem
from triton_models.base.suggest import some_of
from triton_models.base.tables import Column, output_width, table
from triton_models.deliver.results import Results
from triton_rehearsal.page.alarms import of_policy
from triton_rehearsal.rehearse.inventory import Inventory
from triton_rehearsal.rehearse.predictions import Prediction
from triton_rehearsal.rehearse.rehearsal import Deployed

# The source folder of a build, which is removed with the build, and the folder that it was copied from.
_SOURCE = re.compile(r"\S*/fleet-build-\w+/src/")
_FOLDER = "model_builds/"
# The shape of a tensor, if there is one, its first value, and the others.
_FIRST_VALUE = re.compile(r"^((?:\[[^]]*\] )?\S+) .+$")
_GOOD = ("published", "unchanged", "equal", "identical")
_BAD = ("failed in", "FAILED", "WRONG")
_STYLES = ("bold green", "bold red")  # by exit code


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalResult:
    """The result of a rehearsal. Of named models, the tables leave out what is the same for all models."""

    deployed: Deployed
    results: Results
    predictions: tuple[Prediction, ...]
    inventory: Inventory
    seconds: float
    of_named: bool = False

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
        """Yield the result as tables; of a failure what failed, and the reasons last."""
        console = Console(file=sys.stdout, highlight=False)
        with console.capture() as capture:
            for line in self._tables():
                console.print(_colored(line), soft_wrap=True)
            console.print(Text(self._summary(), style=_STYLES[self.exit_code]), soft_wrap=True)
            for line in _reasons(self.results, self.predictions):
                console.print(Text(line), soft_wrap=True)
        yield from capture.get().splitlines()

    def _tables(self) -> Iterator[str]:
        width = output_width()
        yield from _section("Builds", _builds(self.results), width)
        yield from _answers(self.results, width)
        yield from prediction_table(self.predictions, width)
        if not self.exit_code:
            if not self.of_named:
                yield from _inventory(self.inventory, self.deployed, width)
            yield from _cache(self.inventory)

    def _summary(self) -> str:
        models = len(self.results.results)
        built = models - len(self.results.failed)
        loads = sum(not each.failed and each.proof == "loads" for each in self.results.results)
        said = [f"{built} of {models} models built", *counted(self.predictions)]
        if loads:
            said.append(f"{loads} model{'s' * (loads > 1)} only load{'s' * (loads == 1)}")
        verdict = "FAILED: " if self.exit_code else ""
        return f"{verdict}{', '.join(said)}, in {self.seconds:.0f} s."


def _section(title: str, columns: Sequence[Column], width: int) -> Iterator[str]:
    yield title
    yield from (f"  {line}" for line in table(columns, width=width - 2))
    yield ""


def _builds(results: Results) -> list[Column]:
    rows = results.results
    return [
        Column(title="model", cells=[each.model for each in rows]),
        Column(
            title="result", cells=[f"failed in {each.step}" if each.failed else each.status for each in rows]
        ),
        Column(title="precision", cells=[each.precision for each in rows]),
        Column(title="answers", cells=[each.proof for each in rows]),
        Column(title="seconds", cells=[f"{each.seconds:.1f}" for each in rows], right=True),
        Column(
            title="artifact",
            cells=[each.artifact for each in rows],
            short=[digest_of_artifact(each.artifact) for each in rows],
        ),
    ]


def _answers(results: Results, width: int) -> Iterator[str]:
    """Yield what was compared, with the models of which this is true."""
    models: dict[str, list[str]] = {}
    for each in results.results:
        if each.answers:
            models.setdefault(each.answers, []).append(each.model)
    for answers, names in models.items():
        line = f"{some_of(names)}: {answers}."
        yield from textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
    if models:
        yield ""


def counted(predictions: Sequence[Prediction]) -> Iterator[str]:
    """Yield how many examples match their reference, were made up by a tool, or have no reference."""
    unasked = sum(bool(each.no_request) for each in predictions)
    generated = [each for each in predictions if each.generated]
    own = [each for each in predictions if not each.generated and not each.no_request]
    compared = [each for each in own if each.difference is not None or each.problems]
    if compared:
        right = sum(each.passed for each in compared)
        yield f"{right} of {len(compared)} predictions match their reference"
    if generated:
        right, of = sum(each.passed for each in generated), len(generated)
        yield f"{right} of {of} generated example{'s' * (of > 1)} answered"
    if unasked:
        yield f"{unasked} without a request"
    if alone := len(own) - len(compared):
        yield f"{alone} prediction{'s' * (alone > 1)} without a reference"


def _predictions(predictions: Sequence[Prediction]) -> list[Column]:
    firsts = [
        made.model if number == 0 or predictions[number - 1].model != made.model else ""
        for number, made in enumerate(predictions)
    ]
    precisions = [made.precision if first else "" for made, first in zip(predictions, firsts, strict=True)]
    return [
        Column(title="model", cells=firsts),
        *([Column(title="precision", cells=precisions)] if any(precisions) else []),
        Column(title="example", cells=[_example(made) for made in predictions]),
        Column(title="cold ms", cells=[_ms(made.cold_ms) for made in predictions], right=True),
        Column(title="warm ms", cells=[_ms(made.warm_ms) for made in predictions], right=True),
        _values("output", [made.output for made in predictions], rank=1),
        _values("reference", [made.reference for made in predictions], rank=2),
        Column(title="result", cells=[compared(made) for made in predictions]),
    ]


def _example(made: Prediction) -> str:
    return f"{made.example} (generated)" if made.generated else made.example


def _values(title: str, cells: Sequence[str], *, rank: int) -> Column:
    # If there is no room, only the first value of each tensor is shown.
    short = [_FIRST_VALUE.sub(r"\1…", cell) for cell in cells]
    return Column(title=title, cells=cells, short=short, rank=rank)


def _ms(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds:,.0f}"


def compared(made: Prediction) -> str:
    """Return the result of a comparison in a few words; a generated example proves too little for "equal"."""
    if made.problems:
        return "FAILED"
    if made.no_reference or made.no_request:
        return f"FAILED: no {'reference' if made.no_reference else 'request'}"
    if made.difference is None:
        return "loads"
    if made.difference == 0:
        return "answered, identical" if made.generated else "identical"
    how = f", {made.difference:.0e}" if math.isfinite(made.difference) else ""
    if made.passed:
        return f"{'answered' if made.generated else 'equal'}{how}"
    return f"WRONG{how} > {made.tolerance:.0e}" if how else "WRONG"


def prediction_table(predictions: Sequence[Prediction], width: int) -> Iterator[str]:
    """Yield the table of predictions, and what its words mean; nothing without predictions."""
    if predictions:
        yield from _section("Predictions", _predictions(predictions), width)
        if legend := list(_legend(predictions)):
            for line in legend:
                yield from textwrap.wrap(line, width)
            yield ""


def _legend(predictions: Sequence[Prediction]) -> Iterator[str]:
    """Yield what "equal", "answered" and "loads" mean where a row has them."""
    right = [made for made in predictions if made.passed]
    tolerances = [made.tolerance for made in right if made.difference and not made.generated]
    if tolerances:
        yield f"equal: no value is further than {max(tolerances):.0e} from the source framework's."
    if any(made.difference is None for made in right):
        yield "loads: the model answered, and there is no reference to compare with."
    if any(made.generated and made.difference is not None for made in right):
        yield "answered: within the tolerance, on an example that a tool made up. Replace it with a real one."


def _inventory(inventory: Inventory, deployed: Deployed, width: int) -> Iterator[str]:
    """Yield the tables of what was deployed; one that has no rows is left out."""
    if rows := [(target, policy) for target in inventory.targets for policy in target.policies]:
        columns = [
            Column(title="variant", cells=[target.resource.rpartition("/")[2] for target, _ in rows]),
            Column(title="instances", cells=[f"{target.minimum} to {target.maximum}" for target, _ in rows]),
            Column(title="metric", cells=[policy.metric for _, policy in rows]),
            Column(title="target", cells=[f"{policy.target:g}" for _, policy in rows], right=True),
        ]
        yield from _section(f"Auto scaling of {deployed.endpoint}", columns, width)
    if alarms := [each for each in inventory.alarms if not of_policy(each.name)]:
        prefix = f"{deployed.endpoint}-"
        columns = [
            Column(title="alarm", cells=[each.name.removeprefix(prefix) for each in alarms]),
            Column(title="condition", cells=[each.condition.replace(prefix, "") for each in alarms]),
        ]
        yield from _section(f"Alarms, named {prefix}...", columns, width)
    if widgets := inventory.widgets:
        metrics = {metric for each in widgets for metric in each.metrics}
        yield f"Dashboard {deployed.dashboard}: {len(widgets)} charts of {len(metrics)} metrics"


def _cache(inventory: Inventory) -> Iterator[str]:
    peak, hits = inventory.peak_models_loaded, inventory.cache_hit_ratio
    if peak is not None:
        yield f"Peak models loaded: {peak:g}"
    if hits is not None:
        yield f"Requests that hit a loaded model: {100 * hits:.1f} %"
    yield ""


def _reasons(results: Results, predictions: Sequence[Prediction]) -> Iterator[str]:
    for result in results.failed:
        yield from ("", f"{result.model}: failed in {result.step}")
        yield from _indented(result.problems)
    yield from prediction_reasons(predictions)
    names = dict.fromkeys(
        [result.model for result in results.failed] + [made.model for made in predictions if not made.passed]
    )
    if names:
        yield from ("", f"Then rehearse again: fleet rehearse {' '.join(names)}")


def prediction_reasons(predictions: Sequence[Prediction]) -> Iterator[str]:
    """Yield the reason of each prediction that failed, and the next step."""
    for made in predictions:
        if made.problems:
            yield from ("", f"{made.model}, {made.example}: FAILED at the endpoint")
            yield from _indented(made.problems)
        elif made.no_request:
            yield from ("", f"{made.model}: no request")
            yield from _indented(made.no_request)
        elif made.no_reference:
            yield from ("", f"{made.model}, {made.example}: no reference")
            yield from _indented(made.no_reference)
        elif not made.passed:
            yield from ("", f"{made.model}, {made.example}: {compared(made)}")
            yield f"  answer:    {made.output}"
            yield f"  reference: {made.reference}"
            yield f"  tolerance: {made.tolerance:g}"
            yield "  fix:       find what differs between the endpoint and the build, which was right there"


def _indented(problems: Sequence[Problem]) -> Iterator[str]:
    for problem in problems:
        yield from (f"  {_SOURCE.sub(_FOLDER, line)}" for line in str(problem).splitlines())


def _colored(line: str) -> Text:
    text = Text(line)
    text.highlight_words(_GOOD, "green")
    text.highlight_words(_BAD, "bold red")
    return text
