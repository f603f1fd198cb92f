"""Checks of thousands of declarations in one synthesis, which reads only those that changed."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from triton_models.base.errors import FleetError, Problem
from triton_models.base.json_text import parsed
from triton_models.base.source_files import contents
from triton_models.base.whole_files import write_whole
from triton_models.check.servable import CheckedDeclaration, check_declaration, problems_together
from triton_models.declare.reading import FORM_MARK, FolderReader
from triton_models.declare.searched import environment_of_a_build, variables_read
from triton_models.facts.releases import Release

FOLDER = ".fleet_cache"
"""The folder of the cache in the source folder, which is not a source itself."""

_FILE = "declarations.json"
_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A checked declaration, with everything that its result depends on.

    Attributes:
        forms: The names of the forms in its folder; no folder may have the same name.
        variables: The environment variables that its folder reads, each with a digest of its value.
    """

    checked: CheckedDeclaration
    digest: str
    forms: tuple[str, ...] = ()
    variables: Mapping[str, str]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> _Entry:
        """Return the entry from its JSON-ready data, which has lists for tuples."""
        checked: Any = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in document["checked"].items()
        }
        return cls(
            **{**document, "checked": CheckedDeclaration(**checked), "forms": tuple(document["forms"])}
        )


class Survey:
    """The checks of declared models. Those that passed before and have not changed are not read again.

    Attributes:
        names: The models: folders, or `folder:form`; without duplicates.

    Args:
        names: The models: folders, or `folder:form`; duplicates are dropped.
        source: The folder that holds models/.
        files: The digest of each file in it: see `triton_models.base.source_files.contents`.
        release: The Triton release that serves them.
        gpu: True if GPUs serve them, with plans for models declared for TensorRT.
        given: The environment variables that a build sets, such as the addresses of weights.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        source: Path,
        files: Mapping[str, str],
        release: Release,
        gpu: bool,
        given: Mapping[str, str],
    ) -> None:
        self.names = tuple(dict.fromkeys(names))
        self._source, self._release, self._gpu, self._given = source, release, gpu, given
        self._digests = _folder_digests(files)
        self._circumstances = _circumstances(files, release=release.name, gpu=gpu)
        self._values = {**os.environ, **given}
        self._results: list[CheckedDeclaration] | None = None

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of single declarations in the order of names, then those of several together."""
        return problems_together(self.results())

    def results(self) -> Sequence[CheckedDeclaration]:
        """Return the result of each declaration, in the order of names."""
        if self._results is None:
            cached = self._read_cache()
            known = {name: cached[name] for name in self.names if self._is_valid(name, cached.get(name))}
            reader = FolderReader(self._source / "models")
            with environment_of_a_build(self._given), _no_garbage_collection():
                entries = {name: known.get(name) or self._read(name, reader) for name in self.names}
            good = {name: entry for name, entry in entries.items() if not entry.checked.problems}
            if good.keys() - known:
                self._write_cache(good)
            self._results = [entries[name].checked for name in self.names]
        return self._results

    def _read(self, name: str, reader: FolderReader) -> _Entry:
        folder = _folder(name)
        source = (self._source / "models" / folder).absolute()
        digest = self._digests.get(folder, "")
        try:
            declared = reader.folder(name)
            build = declared.asked(name)
        except FleetError as error:
            problems = CheckedDeclaration(problems=error.problems)
            return _Entry(checked=problems, digest=digest, variables={})
        checked = check_declaration(build, source=source, release=self._release, gpu=self._gpu)
        variables = variables_read(source)
        # Of this shell, which no build job has.
        ours = {self._values.get(each) for each in variables if each not in self._given}
        return _Entry(
            checked=replace(
                checked,
                elsewhere=tuple(each for each in checked.elsewhere if each not in ours),
                objects=tuple(each for each in checked.objects if each not in ours),
            ),
            digest=digest,
            forms=tuple(form.name for form in declared.forms.values()),
            variables=self._values_of(variables),
        )

    def _is_valid(self, name: str, entry: _Entry | None) -> bool:
        return (
            entry is not None
            and entry.digest == self._digests.get(_folder(name))
            and not self._digests.keys() & entry.forms
            and entry.variables == self._values_of(entry.variables)
        )

    def _values_of(self, variables: Iterable[str]) -> dict[str, str]:
        """Return a digest of the value of each environment variable that is set, here or by a build."""
        return {name: _digest([self._values[name]]) if name in self._values else "" for name in variables}

    def _read_cache(self) -> dict[str, _Entry]:
        """Return the entries with the same circumstances, by requested name."""
        try:
            document = parsed((self._source / FOLDER / _FILE).read_bytes())
            if document["circumstances"] != self._circumstances:
                return {}
            return {asked: _Entry.of(row) for asked, row in document["checked"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}  # missing, or in another format

    def _write_cache(self, entries: Mapping[str, _Entry]) -> None:
        """Write the entries, if the source folder is writable."""
        rows = {asked: asdict(entry) for asked, entry in entries.items()}
        folder = self._source / FOLDER
        with contextlib.suppress(OSError):
            folder.mkdir(exist_ok=True)
            (folder / ".gitignore").write_text("*\n")
            document = {"circumstances": self._circumstances, "checked": rows}
            write_whole(folder / _FILE, json.dumps(document).encode())


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Collect no garbage for a time, which is a sixth of the time that declarations take."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _circumstances(files: Mapping[str, str], *, release: str, gpu: bool) -> str:
    """Return a digest of everything outside their folders that the checks of declarations depend on."""
    tools = [f"{digest} {path}" for path, digest in contents(_PACKAGE).items() if path.endswith(".py")]
    shared = [f"{digest} {path}" for path, digest in files.items() if "/" not in path]
    return _digest([*tools, *shared, release, str(gpu), f"{sys.version_info[:2]}"])


def _folder_digests(files: Mapping[str, str]) -> dict[str, str]:
    """Return the digest of each folder of models/."""
    by_folder: dict[str, list[str]] = {}
    for path, digest in files.items():
        top, _, rest = path.partition("/")
        folder, inside, name = rest.partition("/")
        if top == "models" and inside:
            by_folder.setdefault(folder, []).append(f"{digest} {name}")
    return {folder: _digest(lines) for folder, lines in by_folder.items()}


def _folder(name: str) -> str:
    return name.partition(FORM_MARK)[0]


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
