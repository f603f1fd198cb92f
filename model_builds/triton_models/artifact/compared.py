"""What a build compared between a model and its source, as recorded in build.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from triton_models.declare.tensors import Between
from triton_models.facts.tensorrt import FilePrecision

COMPARED = "compared"
"""The key in build.json: a mapping from the name of a model to its `Compared`. A model that is not there was
not compared with anything."""

_PLAIN = ("examples", "drawn", "allowed", "precision")


Range: TypeAlias = Between
"""The values for which a declaration promises something, and why no others come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A finished model that answered as its source does.

    It has no measured differences: they depend on the CPU, and equal sources must give equal bytes.

    Attributes:
        examples: The examples of the declaration that were compared.
        drawn: The rows that the build drew by itself.
        allowed: The largest difference allowed.
        limits: What was left out of the declared sizes, such as "tokens up to 8192 of 16384".
        ranges: The inputs whose range the declaration narrows.
        unproven: The features of a forest for which nothing could be compared, such as "features 0 and 3":
            its framework splits them in FP64, and the server reads FP32. Such a model only loads.
    """

    examples: int
    drawn: int
    allowed: float
    precision: FilePrecision
    limits: str = ""
    ranges: Mapping[str, Range] = field(default_factory=dict)
    unproven: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-ready data for build.json."""
        ranges = {
            name: {
                "between": [span.low, span.high],
                "why": span.why,
                **_present(never_empty=span.never_empty),
            }
            for name, span in sorted(self.ranges.items())
        }
        plain = {name: getattr(self, name) for name in _PLAIN}
        return {**plain, **_present(limits=self.limits, ranges=ranges, unproven=self.unproven)}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Compared:
        """Read what `as_dict` returned."""
        ranges = {
            name: Range(
                low=span["between"][0],
                high=span["between"][1],
                why=span["why"],
                never_empty=span.get("never_empty") is True,
            )
            for name, span in document.get("ranges", {}).items()
        }
        plain = {name: document[name] for name in _PLAIN}
        texts = {name: document.get(name, "") for name in ("limits", "unproven")}
        return cls(**plain, **texts, ranges=ranges)


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


def compared_models(record: Mapping[str, Any]) -> Mapping[str, Compared]:
    """Return what the record of a build says of each of its models."""
    return {name: Compared.of(document) for name, document in record.get(COMPARED, {}).items()}
