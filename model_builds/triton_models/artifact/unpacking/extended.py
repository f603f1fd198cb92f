"""Extended headers: the lines of POSIX.1-2001 ("pax"), and GNU's long names."""

from __future__ import annotations

import re
from collections.abc import Mapping

from triton_models.artifact.unpacking.refusals import RefusedError, shown

_LENGTH = re.compile(rb"([1-9][0-9]{0,8}) ")

# The format of the lines that readers use; all readers ignore others.
_TIME, _ID, _SIZE = (
    re.compile(rb"-?[0-9]{1,18}(\.[0-9]*)?"),
    re.compile(rb"[0-9]{1,10}"),
    re.compile(rb"[0-9]{1,18}"),
)
_FORMS = {b"atime": _TIME, b"ctime": _TIME, b"mtime": _TIME, b"uid": _ID, b"gid": _ID, b"size": _SIZE}
_STRUCTURE = frozenset({b"path", b"linkpath", b"size", b"hdrcharset"})
_SPARSE = (b"GNU.", b"SCHILY.realsize")


def lines_of(content: bytes) -> dict[bytes, bytes]:
    """Parse the lines of an extended header.

    Raises:
        RefusedError: A line is malformed, duplicated, or for a sparse file.
    """
    lines: dict[bytes, bytes] = {}
    at = 0
    while at < len(content):
        length = _LENGTH.match(content, at)
        end = at + int(length[1]) if length else 0
        line = content[length.end() : end] if length else b""
        key, equals, value = line[:-1].partition(b"=")
        if end > len(content) or line[-1:] != b"\n" or not equals or not key or b"\0" in key:
            raise RefusedError("archive-ambiguous", f"a malformed line at byte {at} of an extended header")
        if key in lines:
            raise RefusedError("archive-ambiguous", f"{shown(key)} twice in an extended header")
        _refuse_line(key, value)
        lines[key] = value
        at = end
    return lines


def refuse_for_all(lines: Mapping[bytes, bytes]) -> None:
    """Refuse a header for all members that contains more than comments.

    Raises:
        RefusedError: It sets names or sizes.
    """
    if found := sorted(lines.keys() & _STRUCTURE):
        keys = ", ".join(map(shown, found))
        raise RefusedError("archive-ambiguous", f"{keys} in an extended header for all members")


def long_name(content: bytes) -> bytes:
    """Return the name in a GNU header for long names, which ends with a NUL.

    Raises:
        RefusedError: It does not end with its only NUL.
    """
    name, end, rest = content.partition(b"\0")
    if not end or rest:
        raise RefusedError("archive-ambiguous", f"a long name without one NUL at its end: {shown(content)!r}")
    return name


def _refuse_line(key: bytes, value: bytes) -> None:
    if key.startswith(_SPARSE):
        raise RefusedError("archive-kind", f"a sparse file or a GNU extension: {shown(key)}")
    form = _FORMS.get(key)
    if form is not None and not form.fullmatch(value):
        raise RefusedError("archive-ambiguous", f"{shown(key)}={shown(value)} in an extended header")
    if key in (b"path", b"linkpath") and (not value or b"\0" in value):
        raise RefusedError("archive-name", f"{shown(key)}={shown(value)!r} in an extended header")
