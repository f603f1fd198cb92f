"""The checks of an archive, and the problems that they report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from triton_models.base.checks import Check
from triton_models.base.errors import Problem

_SHOWN_CHARACTERS = 200
_SOURCE = "GNU tar and Python's tarfile: archives that they read differently, or that cannot be read"
_AGAIN = "pack the model again with `fleet pack`"


@dataclass(frozen=True, slots=True)
class _Refusal:
    """The part of a problem that does not depend on the archive."""

    expected: str
    why: str
    fix: str


_REFUSALS: Mapping[str, _Refusal] = MappingProxyType(
    {
        "archive-damaged": _Refusal(
            "one gzip stream of a tar archive, complete, with correct checksums",
            "everything after the damage would be missing on the endpoint",
            "pack the model again; if the file was copied, copy it again",
        ),
        "archive-ambiguous": _Refusal(
            "headers that GNU tar and Python's tarfile read in the same way",
            "the endpoint could unpack other files than those that were checked",
            _AGAIN,
        ),
        "archive-name": _Refusal(
            "relative paths in UTF-8, without '..' or a NUL",
            "unpacking could write outside the model's folder",
            f"rename the file, and {_AGAIN}",
        ),
        "archive-link": _Refusal(
            "files and folders",
            "links may lead out of the model, and some programs do not unpack them",
            f"unpack it, and {_AGAIN}, which packs the targets of links",
        ),
        "archive-kind": _Refusal(
            "files and folders",
            "programs unpack devices, pipes, sparse files and labels differently",
            f"unpack it, remove everything but files and folders, and {_AGAIN}",
        ),
        "archive-clash": _Refusal(
            "each path once, and files only inside folders",
            "the one that is unpacked last wins",
            f"remove one of them, and {_AGAIN}",
        ),
        "archive-limit": _Refusal(
            "an archive within the limits of `triton_models.artifact.archive.Limits`",
            "the endpoint cannot unpack it, or its disk fills up",
            "shorten the path, or split the model",
        ),
        "archive-trailing": _Refusal(
            "only zeros after the end of the archive",
            "some programs unpack the rest, others ignore it",
            f"{_AGAIN}; archives cannot be joined with `cat`",
        ),
    }
)
CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        each: Check(id=each, source="GNU tar 1.34 and Python's tarfile: what they read differently")
        for each in _REFUSALS
    }
)


class RefusedError(Exception):
    """The archive cannot be read any further.

    Attributes:
        check: The id of the check.
        what: The finding.
    """

    def __init__(self, check: str, what: str) -> None:
        super().__init__(what)
        self.check = check
        self.what = what


def problem(check: str, what: str, *, where: str) -> Problem:
    """Return the problem of an archive, by the id of its check."""
    refusal = _REFUSALS[check]
    return CHECKS[check].problem(
        what=what, where=where, expected=refusal.expected, why=refusal.why, fix=refusal.fix
    )


def shown(name: bytes | str) -> str:
    """Return a name for an error, short and without control characters."""
    text = name if isinstance(name, str) else name.decode(errors="backslashreplace")
    printable = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[: _SHOWN_CHARACTERS + 1])
    return printable if len(text) <= _SHOWN_CHARACTERS else f"{printable[:_SHOWN_CHARACTERS]}..."
