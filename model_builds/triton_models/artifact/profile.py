"""What a model needs: memory, disk and times, each as a range with its source.

A profile is estimated from the files of an artifact, or measured on a GPU; the manifest keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MIB = 1 << 20
LEAST, LIKELY, MOST = range(3)
"""The ends of a range, and the figure between them."""

UNKNOWN = "unknown: "
"""The beginning of the source of a figure that nothing shows; its values count for nothing."""

_RANGES = ("memory", "host", "shared", "fetch_s", "load_s", "busy_s")
_MOST_TEXT = 200
_LARGEST = float(1 << 50)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A figure: at least, likely and at most, and where it comes from."""

    values: tuple[float, float, float]
    source: str

    @property
    def is_unknown(self) -> bool:
        """Whether nothing shows the figure, and only a measurement can."""
        return self.source.startswith(UNKNOWN)

    @classmethod
    def measured(cls, value: float, source: str) -> Range:
        """Return a figure that was measured, or given by the user."""
        return cls(values=(value, value, value), source=source)

    @classmethod
    def of(cls, value: Callable[[int], float], source: str) -> Range:
        """Return a range from a function of its ends."""
        return cls(values=(value(LEAST), value(LIKELY), value(MOST)), source=source)

    @classmethod
    def seen(cls, values: Sequence[float], source: str) -> Range:
        """Return the range of several measurements, of which there is at least one."""
        ordered = sorted(values)
        return cls(values=(ordered[0], ordered[len(ordered) // 2], ordered[-1]), source=source)

    @classmethod
    def total(cls, ranges: Sequence[Range]) -> Range:
        """Return the sum of ranges."""
        sources = sorted({each.source for each in ranges if each.values[MOST]})
        unknown = [source for source in sources if source.startswith(UNKNOWN)]
        source = "; ".join(unknown[:1] or sources) or "none"
        return cls.of(lambda end: sum(each.values[end] for each in ranges), source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a model needs.

    Attributes:
        name: The model's name.
        backends: Those that it needs, each of which brings its libraries once.
        disk: The bytes of its files.
        memory: The bytes that it takes on a GPU, besides what is there for all models.
        host: The bytes of the host's memory that belong to it alone.
        shared: The bytes of its regions in /dev/shm.
        fetch_s: Seconds of download and unpacking.
        load_s: Seconds of the load into the server.
        busy_s: Seconds for which a request keeps the GPU busy.
    """

    name: str
    backends: frozenset[str]
    disk: float
    memory: Range
    host: Range
    shared: Range
    fetch_s: Range
    load_s: Range
    busy_s: Range


def profile_document(profile: Profile) -> dict[str, Any]:
    """Return the document of a profile, without the model's name."""
    ranges = {name: getattr(profile, name) for name in _RANGES}
    return {
        "backends": sorted(profile.backends),
        "disk": _short(profile.disk),
        **{name: [*(_short(value) for value in each.values), each.source] for name, each in ranges.items()},
    }


def read_profile(name: str, document: Any) -> Profile:
    """Read a profile from its document.

    Raises:
        ValueError: It is not one.
    """
    if not isinstance(document, Mapping):
        raise ValueError("a profile is not an object")
    backends, disk = document.get("backends"), document.get("disk")
    if not isinstance(backends, list) or not all(isinstance(each, str) for each in backends):
        raise ValueError("the backends of a profile are not a list of strings")
    return Profile(
        name=name,
        backends=frozenset(backends),
        disk=_figure(disk, "disk"),
        **{each: _range(document.get(each), each) for each in _RANGES},
    )


def _short(value: float) -> float:
    return int(value) if float(value).is_integer() else value


def _range(value: Any, name: str) -> Range:
    if not isinstance(value, list) or len(value) != len((LEAST, LIKELY, MOST)) + 1:
        raise ValueError(f"{name} of a profile is not three numbers and their source")
    least, likely, most = (_figure(each, name) for each in value[:-1])
    source = value[-1]
    if not least <= likely <= most or not isinstance(source, str) or len(source) > _MOST_TEXT:
        raise ValueError(f"{name} of a profile is not a range")
    return Range(values=(least, likely, most), source=source)


def _figure(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LARGEST:
        raise ValueError(f"{name} of a profile is not a number from 0 on")
    return float(value)
