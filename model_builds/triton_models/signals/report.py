"""What a process reports of a minute or an hour: an object that is written once.

The deployed stack reads it too: its function has the text of this file and of `counts` in it. Both import
only the standard library, and each other.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from triton_models.signals.counts import Artifact, Counts

MINUTE_S, HOUR_S = 60, 3600
UNRESOLVED = "(unresolved)"
"""The endpoint of calls that failed before their alias was known."""

_FORMAT = 1
_GZIP = 16 + zlib.MAX_WBITS
_MOST_BYTES = 64 << 20
_NAME = re.compile(r"(\d{4}-\d\d-\d\d/\d\d)(?:-(\d\d))?-([0-9a-f]{16})\.json\.gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A minute or an hour of a process.

    Attributes:
        start: Its first second, since 1970.
        seconds: 60 or 3600.
    """

    start: int
    seconds: int
    process: str

    @property
    def name(self) -> str:
        """The name of its object below that of the endpoint: hours of a day sort before their minutes."""
        began = datetime.fromtimestamp(self.start, timezone.utc)
        minute = f"-{began:%M}" if self.seconds == MINUTE_S else ""
        return f"{began:%Y-%m-%d/%H}{minute}-{self.process}.json.gz"

    @classmethod
    def of_name(cls, name: str) -> Period | None:
        """Return the period of an object's name; None for other names."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        hour, minute, process = found.groups()
        try:
            began = datetime.strptime(f"{hour} {minute or '00'} +0000", "%Y-%m-%d/%H %M %z")
        except ValueError:
            return None
        return cls(start=int(began.timestamp()), seconds=MINUTE_S if minute else HOUR_S, process=process)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a process counted in a period.

    Attributes:
        counts: By model and artifact.
        number: That of a minute among those of its process, endpoint and hour, from 0. A gap is a minute
            that was not written.
        idle: Whether nothing was counted since, so that an end of the process loses nothing.
        lost: The requests of hours that could not be written, until then.
    """

    period: Period
    counts: Mapping[Artifact, Counts] = field(default_factory=dict)
    number: int = 0
    idle: bool = False
    lost: int = 0

    def encoded(self) -> bytes:
        """Return its object."""
        document = {
            "format": _FORMAT,
            "number": self.number,
            "idle": self.idle,
            "lost": self.lost,
            "models": [[*artifact, *each.as_list()] for artifact, each in self.counts.items()],
        }
        packing = zlib.compressobj(wbits=_GZIP)
        return packing.compress(json.dumps(document, separators=(",", ":")).encode()) + packing.flush()

    @classmethod
    def decoded(cls, content: bytes, period: Period) -> Report:
        """Return the report of an object.

        Raises:
            ValueError: It is damaged, or of another format.
        """
        try:
            document = json.loads(_unpacked(content))
            if document["format"] != _FORMAT:
                msg = f"its format is {document['format']!r}, not {_FORMAT}"
                raise ValueError(msg)
            return cls(
                period=period,
                counts={
                    (str(model), str(artifact)): Counts.of_list(rest)
                    for model, artifact, *rest in document["models"]
                },
                number=int(document["number"]),
                idle=bool(document["idle"]),
                lost=int(document["lost"]),
            )
        except (ValueError, KeyError, TypeError, zlib.error, RecursionError) as error:
            msg = f"the object is damaged: {type(error).__name__}: {error}"
            raise ValueError(msg) from None


def _unpacked(content: bytes) -> bytes:
    unpacking: Any = zlib.decompressobj(wbits=_GZIP)
    found: bytes = unpacking.decompress(content, _MOST_BYTES)
    if not unpacking.eof:
        msg = "it is cut off, or has more than 64 MiB"
        raise ValueError(msg)
    return found
