"""The floors of networks on a GPU, from their shapes: alone, or to compare what was measured with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton_models.base.outcome import progress
from triton_models.base.tables import Column, table
from triton_models.builds.build import explained
from triton_models.builds.floor import Floor, NetworkCost, NetworkFloor, floors_of
from triton_models.declare.reading import folder_of
from triton_models.facts.gpu_peaks import Peaks, peaks_of
from triton_models.facts.instances import gpu as gpu_named
from triton_models.spec import ModelDefinition

_NO_DECIMALS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """The outcome of `fleet compare --gpu`: the floors of the networks of each model."""

    peaks: Peaks
    models: Mapping[str, Sequence[NetworkFloor]]
    exit_code: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the floors as JSON-ready data, with times in milliseconds."""
        return {
            "gpu": self.peaks.gpu,
            "networks": [
                {
                    "name": name,
                    "model": network.model,
                    "precision": network.precision,
                    "batch": floor.batch,
                    "operations": cost.operations,
                    "weights": cost.weights,
                    "between_operators": cost.between,
                    "between_groups": cost.groups,
                    "input_output_bytes": cost.ends,
                    "arithmetic_ms": _ms(floor.arithmetic_s),
                    "bytes_ms": _ms(floor.bytes_s),
                    "unfused_bytes_ms": _ms(floor.unfused_s),
                    "floor_ms": _ms(floor.least_s),
                    "rows_per_second": round(floor.rows_per_second, 1),
                    "larger": floor.larger,
                    "uncounted": dict(cost.uncounted),
                }
                for name, network, cost, floor in self._rows()
            ],
        }

    def _rows(self) -> list[tuple[str, NetworkFloor, NetworkCost, Floor]]:
        return [
            (name, network, cost, floor)
            for name, networks in self.models.items()
            for network in networks
            for cost, floor in zip(network.costs, network.floors, strict=True)
        ]

    @staticmethod
    def _columns(rows: Sequence[tuple[str, NetworkFloor, NetworkCost, Floor]]) -> list[Column]:
        return [
            Column(title="model", cells=[name for name, *_ in rows]),
            Column(title="network", cells=[network.model for _, network, *_ in rows], rank=2),
            Column(title="in", cells=[network.precision for _, network, *_ in rows]),
            _numbers("batch", [floor.batch for *_, floor in rows]),
            _numbers("GFLOP", [cost.operations / 1e9 for *_, cost, _ in rows], rank=1),
            _numbers("weights", [cost.weights / 1e6 for *_, cost, _ in rows], rank=3),
            _numbers("arithmetic", [floor.arithmetic_s * 1e3 for *_, floor in rows], rank=4),
            _numbers("bytes", [floor.bytes_s * 1e3 for *_, floor in rows], rank=5),
            _numbers("floor", [floor.least_s * 1e3 for *_, floor in rows]),
            Column(title="by", cells=[floor.larger for *_, floor in rows], rank=1),
            _numbers("rows/s", [floor.rows_per_second for *_, floor in rows]),
            _numbers("unfused", [floor.unfused_s * 1e3 for *_, floor in rows], rank=6),
        ]

    def lines(self) -> Iterator[str]:
        """Yield the lines of a table, and what its columns are."""
        yield f"the least time on {self.peaks.gpu}, by its peaks: nothing was measured"
        yield ""
        if rows := self._rows():
            lines = list(table(self._columns(rows)))
            yield from lines
            yield ""
            yield (
                "Times in ms, weights in millions. The floor is the longer one of arithmetic and bytes, "
                "with those between fused operators. 3 times the floor is good for large batches."
            )
            if "unfused" in lines[0]:
                yield "unfused: all bytes if no operators are fused."
        for name, networks in self.models.items():
            if not networks:
                yield f"{name} has no network of PyTorch or ONNX, so it has no floor"
            for network in networks:
                if counted := network.costs[0].uncounted:
                    shown = ", ".join(f"{count} {operator}" for operator, count in counted.items())
                    yield f"{network.model}: the arithmetic of {shown} is not counted, only the bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFloor:
    """The floor of one request to a model: of all its networks, one after the other.

    Attributes:
        gpu: The GPU's name.
        precision: The precisions of its networks, joined by +.
        cost: What its networks cost together.
        seconds: The floor.
        larger: What takes longer, "arithmetic" or "bytes".
    """

    gpu: str
    precision: str
    cost: NetworkCost
    seconds: float
    larger: str


def request_floor(
    name: str, build: ModelDefinition, *, peaks: Peaks, rows: int, models: Path | None
) -> RequestFloor | None:
    """Return the floor of a request with some rows; None for a model without a network.

    Raises:
        FleetError: A network has no floor.
    """
    progress(f"counting {name}")
    with explained(build, folder_of(name, models)):
        networks = [each for each in floors_of(build, peaks, batches=[rows]) if each.floors]
    if not networks:
        return None
    floors, costs = [each.floors[0] for each in networks], [each.costs[0] for each in networks]
    arithmetic, moved = sum(each.arithmetic_s for each in floors), sum(each.bytes_s for each in floors)
    return RequestFloor(
        gpu=peaks.gpu,
        precision="+".join(dict.fromkeys(each.precision for each in networks)),
        cost=NetworkCost(
            batch=rows,
            operations=sum(each.operations for each in costs),
            weights=sum(each.weights for each in costs),
            between=sum(each.between for each in costs),
            groups=sum(each.groups for each in costs),
            ends=sum(each.ends for each in costs),
            uncounted={name: count for each in costs for name, count in each.uncounted.items()},
        ),
        seconds=sum(each.least_s for each in floors),
        larger="arithmetic" if arithmetic > moved else "bytes",
    )


def floors(builds: Mapping[str, ModelDefinition], gpu: str, *, models: Path | None) -> Floors:
    """Return the floors of declared models, which are in a folder of model builds.

    Raises:
        FleetError: The GPU is unknown or has no known peaks, or a network has no floor.
    """
    peaks = peaks_of(gpu_named(gpu))
    found = {}
    for name, build in builds.items():
        progress(f"counting {name}")
        with explained(build, folder_of(name, models)):
            found[name] = floors_of(build, peaks)
    return Floors(peaks=peaks, models=found)


def _numbers(title: str, numbers: Sequence[float], *, rank: int = 0) -> Column:
    return Column(title=title, cells=[_number(each) for each in numbers], right=True, rank=rank)


def _number(number: float) -> str:
    if isinstance(number, int) or number >= _NO_DECIMALS:
        return f"{number:,.0f}"
    return f"{number:.2g}" if number < 1 else f"{number:.1f}"


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 4)
