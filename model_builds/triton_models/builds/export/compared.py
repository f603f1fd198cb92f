"""Comparing a finished network with its source, on examples and on drawn inputs, on the CPU.

The source is the PyTorch module itself, or the ONNX file as the user gave it. A row of drawn inputs may
differ by the tolerance times the row's largest answer, where that is above 1, and by what the source itself
moves when its inputs move by their last bit, or when it rounds otherwise. Whole numbers are no sizes: they
may differ by the tolerance, and in rows in which the source's own move.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.encoding import Tensors
from triton_models.base.errors import FleetError
from triton_models.builds.export.answers import (
    EXACT_WHOLE,
    LARGER_ROUNDINGS,
    Answers,
    ModuleRun,
    Run,
    first_line,
)
from triton_models.builds.export.drawn import Drawn
from triton_models.declare.tensors import Between, larger_sizes

DRAWN_INPUTS = Check(id="drawn-inputs", source=FROM_ARGUMENTS)
SOURCE_DIFFERS = Check(id="source-differs", source=FROM_ARGUMENTS)

_EXACT = 1e-6  # what sums in another order round, as a part of the largest answer
_LEAST = 1e-5  # the same, for drawn inputs, some of which are large
_BATCH_EFFECT = 1e-3
_MOVES = 8  # last bits, for the roundings inside
_SMOOTH = 1e-3  # movements from this part of the largest answer on are changes of places
_DRAWS, _DRAWN_OPERATIONS = (8, 32), 2e10
_SHOWN = 6
_TRIED_ALONE = 16
_REFUSED, _PART_REFUSED = 2, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first answer that differs by more than is allowed.

    Attributes:
        amount: The difference: of drawn inputs, as a part of the row's largest answer.
        request: The inputs of the row.
        empty: The mask in which no token counts, if only such rows differ.
    """

    output: str
    amount: float
    allowed: float
    request: Tensors
    drawn: bool
    empty: str = ""

    def __str__(self) -> str:
        """Say what differs, by how much, and for which inputs."""
        where = f"for {'the drawn' if self.drawn else 'the example'} {_shown(self.request)}"
        if self.empty:
            where = f"only where no value of {self.empty!r} is above 0, {where}"
        return f"{self.output} differs by {self.amount:.2g} {where}; {self.allowed:g} is allowed"


@dataclass(slots=True, kw_only=True)
class Comparison:
    """The answers of a source, with which those of finished files are compared.

    Attributes:
        by_row: False if a row's answer depends on its batch by design, as with dynamic quantization.
        may_be_random: False for a large network without random operators, which is not run twice.
        why_not: Why nothing can be compared; empty if it can.
        not_batching: Why requests cannot be joined along the first dimension; empty if they can.
        not_finite: How many drawn rows the source answers with NaN or infinity.
        rows: How many rows were drawn.
    """

    source: Run
    drawing: Drawn
    by_row: bool = True
    may_be_random: bool = True
    examples: list[tuple[Tensors, Answers]] = field(default_factory=list)
    drawn: list[tuple[Tensors, Answers]] = field(default_factory=list)
    why_not: str = ""
    not_batching: str = ""
    not_finite: int = 0
    rows: int = 0

    def prepare(self) -> Comparison:
        """Answer all requests with the source.

        Raises:
            FleetError: The source refuses drawn inputs, or an example is outside the declared range.
        """
        for name, span in self.drawing.ranges.items():
            self._check_range(name, span)
        if self.why_not:
            return self
        self.examples = list(self._answered_examples())
        refusal = ""
        for drawing in self.drawing.choices(self.source):
            self.drawing = drawing
            try:
                self._draw()
            except Exception as error:  # noqa: BLE001  whatever a framework raises
                refusal = f"{type(error).__name__}: {first_line(error)}"
                if isinstance(error, TimeoutError):
                    break
            else:
                return self
        raise self._refuses_drawn(refusal)

    def _answered_examples(self) -> Iterator[tuple[Tensors, Answers]]:
        """Yield the examples with the source's answers; one that a tool made up may be refused."""
        name = self.drawing.model.name
        for request in self.drawing.examples:
            try:
                yield request, self.source(request)
            except Exception as error:
                message = first_line(error)
                if any(request is written for written in self.drawing.written):
                    raise DRAWN_INPUTS.error(
                        what=f"{name!r} refuses the example {_shown(request)}: {message}",
                        where=f"examples() of {name!r}",
                        fix="write an example that the network answers, with values that it knows",
                    ) from error
                sys.stderr.write(f"note: {name} refuses an example that a tool made up: {message}\n")

    def _draw(self) -> None:
        self.drawn, self.rows, self.not_batching, self.not_finite = [], 0, "", 0
        requests = self.drawing.requests()
        self._answer(next(requests))
        if self.drawing.batches and not (self.why_not or self.not_batching):
            self._answer_joined(next(requests))
        if self.why_not or self.not_batching:
            return
        refused = 0
        for request in requests:
            try:
                self._answer(request)
            except TimeoutError:
                raise
            except Exception:  # what the source refuses needs no equal answer
                refused += not any(rows.all() for rows in self.drawing.empty_masks(request).values())
                if refused > _REFUSED + len(self.drawn) / _PART_REFUSED:
                    raise

    def _answer(self, request: Tensors) -> None:
        answers = self.source(request)
        if not self.drawn and self.may_be_random:
            again = self.source(request)
            if any(not _equal(value, again[name]) for name, value in answers.items()):
                cause = "its answers are random, or depend on earlier requests"
                self.why_not = f"{cause}: two answers to the same request differ"
                return
        self._add(request, answers)

    def _answer_joined(self, request: Tensors) -> None:
        """Answer the first batch, and compare its first row with the first request."""
        (_, alone), count = self.drawn[0], _rows_of(request)
        try:
            together = self.source(request)
        except TimeoutError as error:
            self.why_not = f"{count} rows take too long here: {error}"
            return
        except Exception as error:  # noqa: BLE001  whatever a framework raises
            for row in range(1, count):  # a row that is refused alone says nothing about batches
                self.source({name: value[row : row + 1] for name, value in request.items()})
            self.not_batching = f"a batch of {count} fails, where its rows alone do not: {first_line(error)}"
            return
        self._add(request, together)
        if self.not_batching or not self.by_row:
            return
        one, first = ({name: value[:1] for name, value in of.items()} for of in (request, together))
        if effect := self._difference(one, alone, first, allowed=_BATCH_EFFECT, drawn=True):
            self.not_batching = f"the first row's {effect.output} depends on the other rows of its batch"

    def _add(self, request: Tensors, answers: Answers) -> None:
        self.drawn.append((request, answers))
        rows = _rows_of(request) if self.drawing.batches else 0
        self.rows += rows or 1
        self.not_finite += _not_finite(answers, rows)
        for name, value in answers.items():
            if self.drawing.batches and value.shape[:1] != (rows,) and not self.not_batching:
                size = f"has the first size {value.shape[0]}" if value.ndim else "has no dimension"
                self.not_batching = f"output {name!r} {size} for a batch of {rows}"

    def differs(self, finished: Run, allowed: float) -> Difference | None:
        """Return the first answer of a finished file that differs from the source's.

        Raises:
            Exception: The file cannot answer a request.
        """
        for request, exact in self.examples:
            answers = finished(request)
            if difference := self._difference(request, exact, answers, allowed=allowed, drawn=False):
                return difference
        of_empty: Difference | None = None
        for request, exact in self.drawn:
            empty = self.drawing.empty_masks(request)
            hidden = [name for name, rows in empty.items() if rows.all()]
            try:
                answers = finished(request)
            except Exception:
                if not hidden:
                    raise
                answers = {}  # which differs from any
            without = np.any([*empty.values()], axis=0) if empty else None
            if not hidden and (
                difference := self._difference(
                    request, exact, answers, allowed=allowed, drawn=True, without=without
                )
            ):
                return self._of_one_row(difference, request, finished, allowed)
            if empty and not of_empty:
                of_empty = self._difference(request, exact, answers, allowed=allowed, drawn=True)
                of_empty = of_empty and replace(of_empty, empty=next(iter(hidden or empty)))
        return of_empty

    def _of_one_row(
        self, difference: Difference, request: Tensors, finished: Run, allowed: float
    ) -> Difference:
        """Return the difference of a row that differs alone, if one does: the others may follow from it."""
        rows = range(_rows_of(request) if self.drawing.batches else 0)
        alone = [{name: value[row : row + 1] for name, value in request.items()} for row in rows]
        for one in [difference.request, *alone[:_TRIED_ALONE]]:
            with contextlib.suppress(Exception):  # whatever a framework raises
                exact, answers = self.source(one), finished(one)
                if own := self._difference(one, exact, answers, allowed=allowed, drawn=True):
                    return own
        return difference

    def _difference(
        self,
        request: Tensors,
        exact: Answers,
        other: Answers,
        *,
        allowed: float,
        drawn: bool,
        without: np.ndarray | None = None,
    ) -> Difference | None:
        """Return the largest difference of a request's answers; `without` says which rows are left out."""
        rows = _rows_of(request) if self.drawing.batches else 0
        for name, value in exact.items():
            answer = other.get(name)
            if answer is None or answer.shape != value.shape or value.dtype.kind not in "fiub":
                if answer is not None and _equal(value, answer):
                    continue
                return Difference(output=name, amount=np.inf, allowed=allowed, request=request, drawn=drawn)
            if drawn and _has_nan(request):  # NaN says that the network does not know missing values
                answer = np.where(value != value, value, answer)  # noqa: PLR0124
            apart, scales = _apart(value, answer, rows)
            if without is not None and len(apart) == len(without):
                apart[without] = 0.0
            limits = max(allowed, _LEAST) * scales if drawn else allowed + _EXACT * scales
            whole = value.dtype.kind != "f"
            if whole:
                limits = np.full_like(scales, max(allowed, _LEAST))
            if (apart <= limits[:, None]).all():
                continue
            enough = np.maximum(apart - limits[:, None], 0) * (1e-30 if whole else 1 / _MOVES)
            moved = self._movement(request, name, value, rows, enough=enough)
            # Where scores tie, single numbers change places, and the others of the row do not move.
            errors = np.where(moved > 0, 0.0, apart) if whole else np.maximum(apart - _MOVES * moved, 0.0)
            errors = errors.max(axis=1, initial=0.0)
            if (errors <= limits).all() or _only_ties(value, answer, exact, other):
                continue
            row = int(np.argmax(errors / limits))
            amount = float(apart[row].max() / (scales[row] if drawn and not whole else 1.0))
            only = {key: tensor[row : row + 1] for key, tensor in request.items()} if rows else request
            return Difference(output=name, amount=amount, allowed=allowed, request=only, drawn=drawn)
        return None

    def _movement(
        self, request: Tensors, output: str, value: np.ndarray, rows: int, *, enough: np.ndarray
    ) -> np.ndarray:
        """Return how far the source's own answer moves with the last bit of inputs, and of what it computes.

        Further roundings are tried until that is enough for each number. Small whole numbers are exact, and
        so are those that the network compares. But scores that are all zero tie, so for whole numbers zeros
        move, too.
        """
        exact = np.unique(
            [number for tensor in self.drawing.inputs for number in self.drawing.numbers(tensor)]
        )
        requests = [_moved(request, to, exact) for to in (np.inf, -np.inf, 0)]
        requests += [_without_zeros(request)] * (value.dtype.kind != "f")
        runs = [functools.partial(self.source, moved) for moved in requests]
        if isinstance(self.source, ModuleRun):
            rounded = functools.partial(self.source.rounded, request, exact=exact)
            count = int(np.clip(_DRAWN_OPERATIONS / (1 + self.drawing.operations * max(rows, 1)), *_DRAWS))
            runs += [functools.partial(rounded, draw=draw) for draw in range(1 + count)]
        most: Any = 0.0
        larger = len(requests) + LARGER_ROUNDINGS
        for place, run in enumerate(runs):
            with contextlib.suppress(Exception):  # of a network that fixes types, or has no FP64
                apart, scales = _apart(value, run()[output], rows)
                if place >= larger and value.dtype.kind == "f":  # which show only what changes places
                    apart[apart < _SMOOTH * scales[:, None]] = 0.0
                most = np.maximum(most, np.where(np.isfinite(apart), apart, 0.0))
            if np.all((most > enough) | (enough == 0)):
                break
        return np.broadcast_to(most, enough.shape)

    def _check_range(self, name: str, span: Between) -> None:
        model, inputs = self.drawing.model.name, [tensor.name for tensor in self.drawing.inputs]
        where = f"inputs_between of {model!r}"
        if name not in inputs:
            fix = f"name one of {', '.join(inputs)}"
            raise DRAWN_INPUTS.error(what=f"{model!r} has no input {name!r}", where=where, fix=fix)
        for request in self.drawing.examples:
            values = request[name]
            if values.dtype.kind == "O":
                what, why = f"an example has strings for {name!r}", "a range has the numbers that come"
                fix = f"remove {name!r} from inputs_between"
            elif span.never_empty and name in self.drawing.empty_masks(request):
                what = f"an example has a row of {name!r} without a value above 0"
                why = "never_empty=True promises that no such rows come"
                fix = "remove never_empty=True, or correct the example"
            elif values.size and not (span.low <= values.min() and values.max() <= span.high):
                actual, declared = f"{values.min():g} to {values.max():g}", f"{span.low:g} to {span.high:g}"
                what = f"an example has {name!r} from {actual}, and only {declared} is declared"
                why = "nothing is promised outside that range"
                fix = f"widen Between({span.low:g}, {span.high:g}, ...), or correct the example"
            else:
                continue
            raise DRAWN_INPUTS.error(what=what, where=where, why=why, fix=fix)

    def _refuses_drawn(self, message: str) -> FleetError:
        model, inputs = self.drawing.model.name, self.drawing.inputs
        unknown = [tensor for tensor in inputs if tensor.name not in self.drawing.ranges]
        names = [tensor.name for tensor in unknown if "INT" in tensor.data_type]
        names += [tensor.name for tensor in unknown]
        sizes = "write an example, whose sizes the build then draws; or " * self.drawing.has_open_sizes
        name = names[0] if names else ""
        ranges = f'say which values come, such as inputs_between={{"{name}": Between(0, 9, why="...")}}'
        narrower = (
            "narrow inputs_between; or let forward() answer such rows, and check them where they are sent"
        )
        larger = larger_sizes(getattr(self.drawing.model, "inputs", ()))  # an ONNX file declares none
        ways = [ranges, larger] if names else [larger, narrower]
        return DRAWN_INPUTS.error(
            what=f"{model!r} refuses inputs that the build drew: {message}",
            where=f"the inputs of {model!r}",
            why="the build compares a network with its source on inputs of every size",
            fix=sizes + "; or ".join(filter(None, ways)),
        )


def _moved(request: Tensors, to: float, exact: np.ndarray) -> Tensors:
    """Return a request whose numbers move by their last bit, except for small whole ones and exact ones."""

    def move(tensor: np.ndarray) -> np.ndarray:
        if tensor.dtype.kind != "f":
            return tensor
        stays = (tensor == np.round(tensor)) & (np.abs(tensor) < EXACT_WHOLE)
        stays |= np.isin(tensor, exact.astype(tensor.dtype))
        return np.where(stays, tensor, np.nextafter(tensor, tensor.dtype.type(to)))

    return {name: move(tensor) for name, tensor in request.items()}


def _without_zeros(request: Tensors) -> Tensors:
    """Return a request with small numbers for zeros."""
    random = np.random.default_rng(seed=0)

    def move(tensor: np.ndarray) -> np.ndarray:
        if tensor.dtype.kind != "f":
            return tensor
        return np.where(tensor == 0, random.uniform(-1e-6, 1e-6, tensor.shape), tensor).astype(tensor.dtype)

    return {name: move(tensor) for name, tensor in request.items()}


def _apart(exact: np.ndarray, other: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the errors and the largest answer of each row; NaN and infinity equal themselves.

    Without rows, the answer is one row.
    """
    rows = rows if rows and exact.shape[:1] == (rows,) else 1
    one, two = (value.astype(np.float64).reshape(rows, exact.size // rows) for value in (exact, other))
    with np.errstate(all="ignore"):
        apart = np.nan_to_num(np.abs(one - two), nan=np.inf, posinf=np.inf)
    errors = np.where((one == two) | (np.isnan(one) & np.isnan(two)), 0.0, apart)
    finite = np.where(np.isfinite(one), np.abs(one), 0.0)
    return errors, np.maximum(finite.max(axis=1, initial=0.0), 1.0)


def _only_ties(places: np.ndarray, others: np.ndarray, exact: Answers, other: Answers) -> bool:
    """Return whether two rankings differ only where scores tie: in any order, both are right.

    The scores are another output of the same shape. Those that reached 0 or 1 also tie with what is left out.
    """
    if places.dtype.kind not in "iu" or not places.ndim:
        return False
    for name, scores in exact.items():
        if scores.dtype.kind != "f" or scores.shape != places.shape:
            continue
        if name not in other or not _equal(scores, other[name]):
            continue
        tied = (scores[..., None] == scores[..., None, :]).sum(axis=-1) > 1
        return bool((tied | np.isin(scores, (0.0, 1.0)) | (places == others)).all())
    return False


def _has_nan(request: Tensors) -> bool:
    return any(value.dtype.kind == "f" and bool(np.isnan(value).any()) for value in request.values())


def _equal(one: np.ndarray, two: np.ndarray) -> bool:
    return bool(np.array_equal(one, two, equal_nan=one.dtype.kind == "f"))


def _not_finite(answers: Answers, rows: int) -> int:
    bad = np.zeros(max(rows, 1), bool)
    for value in answers.values():
        if value.dtype.kind == "f" and value.size and (not rows or value.shape[:1] == (rows,)):
            bad |= ~np.isfinite(value.reshape(max(rows, 1), -1)).all(axis=1)
    return int(bad.sum())


def _rows_of(request: Tensors) -> int:
    return next((len(value) for value in request.values() if value.ndim), 1)


def _shown(request: Tensors) -> str:
    return ", ".join(f"{name}={_values(value)}" for name, value in request.items())


def _values(value: np.ndarray) -> str:
    numbers = ", ".join(
        f"{number:g}" if value.dtype.kind in "fiu" else str(number) for number in value.ravel()[:_SHOWN]
    )
    more = f", ... of shape {list(value.shape)}" if value.size > _SHOWN else ""
    return f"[{numbers}{more}]"
