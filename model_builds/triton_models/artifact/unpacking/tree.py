"""Checks of the paths of an archive: forbidden ones, and conflicts."""

from __future__ import annotations

import posixpath

from triton_models.artifact.unpacking.limits import Limits
from triton_models.artifact.unpacking.refusals import shown


def path_problem(name: bytes, *, folder: bool, limits: Limits) -> tuple[str, str] | None:
    """Return the rule that a member's name breaks, with a description; otherwise None."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return "archive-name", f"a name that is not UTF-8: {shown(name)!r}"
    parts = text.split("/")
    path = posixpath.normpath(text)
    if not text or text.startswith("/") or ".." in parts or (path == "." and not folder):
        return "archive-name", f"a path that is empty, absolute or goes up: {shown(text)!r}"
    if text.endswith("/") and not folder:
        return "archive-ambiguous", f"a file whose name ends with a slash: {shown(text)!r}"
    beyond = path_limit(path, limits)
    return None if beyond is None else ("archive-limit", beyond)


def path_limit(path: str, limits: Limits) -> str | None:
    """Describe a path that is too long or too deep; otherwise return None."""
    parts = path.split("/")
    longest = max(len(part.encode()) for part in parts)
    size, depth = len(path.encode()), len(parts) - 1
    for found, limit, what in (
        (longest, limits.name_bytes, "a name of {} bytes"),
        (size, limits.path_bytes, "a path of {} bytes"),
        (depth, limits.depth, "a path in {} folders"),
    ):
        if found > limit:
            return f"{what.format(found)}, more than {limit}: {shown(path)!r}"
    return None


class Tree:
    """The files and folders of an archive so far.

    Args:
        repeats: True to accept repeated files.
    """

    def __init__(self, *, repeats: bool) -> None:
        self._files: set[str] = set()
        self._folders: set[str] = set()
        self._repeats = repeats

    def clash(self, path: str, *, folder: bool, link: bool = False) -> str | None:
        """Add a path, and describe its conflict, if any."""
        if folder:
            return self._add_folder(path)
        above = self._add_folder(posixpath.dirname(path))
        if above is not None:
            return above
        if path in self._folders:
            return "a folder and a file with the same path"
        if path in self._files and (link or not self._repeats):
            return "a path that occurs twice"
        self._files.add(path)
        return None

    def _add_folder(self, path: str) -> str | None:
        while path and path not in self._folders:
            if path in self._files:
                return f"a file that is also a folder: {shown(path)!r}"
            self._folders.add(path)
            path = posixpath.dirname(path)
        return None
