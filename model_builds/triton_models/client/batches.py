"""Many inputs in requests of a good size: joined or split, and their answers put together again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.encoding import Array, Tensors
from triton_models.facts.limits import PAYLOAD_LIMIT

Answer: TypeAlias = dict[str, Array]
Progress: TypeAlias = Callable[[int], None]
"""A callback with the number of inputs that have been answered."""

ROWS = Check(id="client-rows", source=FROM_ARGUMENTS)

# Of a request, for its header.
_HEADER_BYTES = 1 << 16

_LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The inputs of one request.

    Attributes:
        parts: The rows of each given input in it, with whether they are its last ones.
        size: The number of bytes.
    """

    inputs: Tensors
    parts: tuple[tuple[int, bool], ...]
    size: int


def batches(given: Iterable[Tensors], rows: int) -> Iterator[Batch]:
    """Yield the requests for many inputs, in order: see `Joining`."""
    joining = Joining(rows)
    for each in given:
        yield from joining.add(each)
    yield from joining.rest()


class Joining:
    """Joins and splits inputs to requests of at most `rows` rows; with 0 rows, each is a request of its own.

    Inputs are joined if they have the same names, types and shapes.
    """

    def __init__(self, rows: int) -> None:
        self._most = rows
        self._waiting: list[tuple[Tensors, bool]] = []

    def add(self, given: Tensors) -> Iterator[Batch]:
        """Yield the requests that are complete with these inputs."""
        import numpy as np

        for piece, last in _pieces({name: np.asarray(each) for name, each in given.items()}, self._most):
            if self._waiting and not _fits(self._waiting, piece, self._most):
                yield from self.rest()
            self._waiting.append((piece, last))
            if sum(_rows(each) for each, _ in self._waiting) >= self._most:
                yield from self.rest()

    def rest(self) -> Iterator[Batch]:
        """Yield the request with what is left."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            yield _joined(waiting)


def _pieces(arrays: Mapping[str, Array], rows: int) -> Iterator[tuple[Tensors, bool]]:
    """Yield views of some rows each."""
    count = _rows(arrays)
    most = min(rows, (PAYLOAD_LIMIT - _HEADER_BYTES) // max(1, _size(arrays) // max(1, count)))
    if not rows or count <= max(1, most):
        yield arrays, True
        return
    for start in range(0, count, max(1, most)):
        end = start + max(1, most)
        yield {name: array[start:end] for name, array in arrays.items()}, end >= count


def _fits(waiting: Sequence[tuple[Tensors, bool]], piece: Tensors, rows: int) -> bool:
    """Return whether a piece can be in one request with others."""
    first = waiting[0][0]
    alike = first.keys() == piece.keys() and all(
        first[name].dtype == array.dtype and first[name].shape[1:] == array.shape[1:] and array.ndim
        for name, array in piece.items()
    )
    return (
        alike
        and sum(_rows(each) for each, _ in waiting) + _rows(piece) <= rows
        and sum(_size(each) for each, _ in waiting) + _size(piece) <= PAYLOAD_LIMIT - _HEADER_BYTES
    )


def _joined(waiting: Sequence[tuple[Tensors, bool]]) -> Batch:
    import numpy as np

    first = waiting[0][0]
    inputs = first
    if len(waiting) > 1:
        inputs = {name: np.concatenate([each[name] for each, _ in waiting]) for name in first}
    parts = tuple((_rows(each), last) for each, last in waiting)
    return Batch(inputs=inputs, parts=parts, size=_size(inputs))


def _rows(arrays: Tensors) -> int:
    return next((len(each) for each in arrays.values() if each.ndim), 1)


def _size(arrays: Tensors) -> int:
    return sum(
        sum(len(each) + _LENGTH_BYTES for each in array.flat) if array.dtype.kind in "USO" else array.nbytes
        for array in arrays.values()
    )


class Gathered:
    """Puts the answers to batches together again: one for each of the given inputs."""

    def __init__(self, progress: Progress | None) -> None:
        self._begun: list[Answer] = []
        self._progress, self._done = progress, 0

    def add(self, batch: Batch, answer: Answer) -> Iterator[Answer]:
        """Yield the answers that are complete with the answer to the next batch.

        Raises:
            FleetError: The answer has not a row for each that was sent.
        """
        if len(batch.parts) == 1 and batch.parts[0][1] and not self._begun:
            yield self._counted(answer)
            return
        total = sum(rows for rows, _ in batch.parts)
        if wrong := [f"{name} {list(each.shape)}" for name, each in answer.items() if _count(each) != total]:
            raise ROWS.error(
                what=f"the answer to {total} rows has {', '.join(wrong)}",
                where="infer_many",
                why="the rows say which answer belongs to which of the joined or split inputs",
                fix="give rows=0, so that each input is a request of its own",
            )
        at = 0
        for rows, last in batch.parts:
            self._begun.append({name: each[at : at + rows] for name, each in answer.items()})
            at += rows
            if last:
                yield self._counted(self._whole())

    def _whole(self) -> Answer:
        import numpy as np

        parts, self._begun = self._begun, []
        if len(parts) == 1:
            return parts[0]
        return {name: np.concatenate([each[name] for each in parts]) for name in parts[0]}

    def _counted(self, answer: Answer) -> Answer:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done)
        return answer


def _count(array: Array) -> int:
    return len(array) if array.ndim else 0


class Window(deque[tuple[Batch, Any]]):
    """The batches that are on their way, in order, with what waits for the answer to each."""

    def full(self, batch: Batch, *, at_once: int, bytes_at_once: int) -> bool:
        """Return whether another batch has to wait: there is always room for one."""
        if not self:
            return False
        return len(self) >= at_once or sum(each.size for each, _ in self) + batch.size > bytes_at_once
