"""`fleet init`: begin a repository of one's own, which depends on this library and copies none of it."""

from __future__ import annotations

import difflib
import hashlib
import importlib.metadata
import json
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from triton_models.base import options as opt
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.errors import FleetError
from triton_models.base.files import LEFTOVERS, source_files, write_whole
from triton_models.base.outcome import JsonReady
from triton_models.base.suggest import did_you_mean
from triton_models.declare.declaration import is_name

INIT_FOLDER = Check(id="init-folder", source=FROM_ARGUMENTS)
FLEET_NAME = Check(id="fleet-name", source=FROM_ARGUMENTS)
UNKNOWN_MODEL = Check(id="unknown-model", source=FROM_ARGUMENTS)

RECORD = ".fleet-init.json"
"""The file in a repository that says what `fleet init` wrote, and from which version."""

STARTER_MODELS = Path(__file__).parent / "models"
"""The models that a repository can begin with."""

_FILES = Path(__file__).parent / "files"
_NAME = re.compile(r"[A-Za-z](-*[A-Za-z0-9])*")
_LONGEST_NAME = 63
_OTHER_NAMES = {"gitignore": ".gitignore"}  # a .gitignore here would apply to this folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(JsonReady):
    """A new repository."""

    folder: Path
    files: Sequence[str]
    models: Sequence[str]

    def lines(self) -> Iterator[str]:
        """Yield the folder, the models and the next steps."""
        models = f"model{'s' if len(self.models) > 1 else ''} {', '.join(self.models)}"
        yield f"{self.folder}: {len(self.files)} files, with the {models}"
        folder = shlex.quote(str(self.folder))
        yield f"Next: `cd {folder}`, then `make rehearse` to deploy, build and serve here."
        wheels = f"the wheels of triton-fleet and embedded-aws {_version()}"
        yield f"Before that, if no index has them, put {wheels} into `wheels/` there."


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade(JsonReady):
    """The difference between a repository and what this version would write.

    Attributes:
        replaced: The diff of each file that was not edited, by name; written with `--write`.
        edited: The diff of each file that was edited and is written differently now: it is yours to merge.
    """

    before: str
    after: str
    replaced: Mapping[str, str] = field(default_factory=dict)
    edited: Mapping[str, str] = field(default_factory=dict)
    written: bool = False

    def lines(self) -> Iterator[str]:
        """Yield each difference."""
        if not self.replaced and not self.edited:
            yield f"Version {self.after} writes the same files as {self.before}."
            return
        for diff in (*self.replaced.values(), *self.edited.values()):
            yield diff.rstrip("\n")
        if self.replaced:
            done = "Written" if self.written else "Not edited since; `--write` writes them"
            yield f"{done}: {', '.join(self.replaced)}"
        if self.edited:
            yield f"Edited here and not written, for you to merge by hand: {', '.join(self.edited)}"


@dataclass(frozen=True, kw_only=True)
class InitOptions:
    """Options of `fleet init`."""

    folder: opt.Folder = opt.argument("the repository's folder: new or empty")
    name: opt.Name | None = opt.option("the fleet's name, the prefix of its stacks (default: the folder's)")
    models: Sequence[str] = opt.argument("the models to begin with (default: minilm)", "MODEL", nargs="*")
    upgrade: bool = opt.flag(
        "show what this version would write differently into a repository that `fleet init` wrote"
    )
    write: bool = opt.flag("with --upgrade: write the files that you have not edited")


def run(options: InitOptions) -> Started | Upgrade:
    """Begin a repository; with `--upgrade`, compare one with what this version would write."""
    if options.upgrade:
        return upgrade(options.folder, write=options.write)
    name = _fleet_name(options.folder) if options.name is None else options.name
    return begin(options.folder, name=name, models=options.models or ["minilm"])


def begin(folder: Path, *, name: str, models: Sequence[str]) -> Started:
    """Write a new repository, all of it or nothing."""
    report = Report("fleet init DIR --name NAME MODEL...")
    _check(report, folder, name, models)
    report.raise_if_any()
    files = _rendered(name, models)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        staging = Path(temporary) / folder.name
        for path, content in files.items():
            write_whole(staging / path, content)
        for model in models:
            leave_out = shutil.ignore_patterns(*LEFTOVERS)
            shutil.copytree(
                STARTER_MODELS / model, staging / "model_builds" / "models" / model, ignore=leave_out
            )
        write_whole(staging / RECORD, _record(name, models, files))
        staging.replace(folder)  # an empty folder is replaced; one that is not empty by now is an error
    return Started(folder=folder, files=tuple(files), models=tuple(models))


def upgrade(folder: Path, *, write: bool = False) -> Upgrade:
    """Compare a repository with what this version would write, and change nothing unless asked."""
    record = _read_record(folder)
    files = _rendered(record["name"], record["models"])
    replaced: dict[str, str] = {}
    edited: dict[str, str] = {}
    for path, content in files.items():
        known = record["files"].get(path)
        if known == _digest(content):
            continue  # this version writes what the other one wrote
        there = (folder / path).read_bytes() if (folder / path).is_file() else None
        if there == content:
            continue
        untouched = there is None if known is None else there is not None and _digest(there) == known
        (replaced if untouched else edited)[path] = _diff(path, there or b"", content)
    if write:
        for path in replaced:
            write_whole(folder / path, files[path])
        merged = {path: content for path, content in files.items() if path not in edited}
        kept = {path: record["files"][path] for path in edited if path in record["files"]}
        write_whole(folder / RECORD, _record(record["name"], record["models"], merged, kept=kept))
    return Upgrade(
        before=record["version"], after=_version(), replaced=replaced, edited=edited, written=write
    )


def starter_models() -> list[str]:
    """Return the models that a repository can begin with."""
    return sorted(path.parent.name for path in STARTER_MODELS.glob("*/build.py"))


def _rendered(name: str, models: Sequence[str]) -> dict[str, bytes]:
    """Return the content of each file by its path in the repository."""
    words = {"NAME": name, "VERSION": _version(), "MODEL": models[0]}
    found = {}
    for source in source_files(_FILES):
        path = source.relative_to(_FILES).as_posix()
        text = source.read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace(f"@{word}@", value)
        found[_OTHER_NAMES.get(path, path)] = (
            _settings(text, name, models) if path == "cdk.json" else text
        ).encode()
    return found


def _settings(text: str, name: str, models: Sequence[str]) -> str:
    document = json.loads(text)
    document["context"]["tritonFleet"].update(name=name, models=list(models))
    return json.dumps(document, indent=2) + "\n"


def _record(
    name: str, models: Sequence[str], files: Mapping[str, bytes], *, kept: Mapping[str, str] | None = None
) -> bytes:
    digests = {path: _digest(content) for path, content in files.items()} | dict(kept or {})
    record = {"version": _version(), "name": name, "models": list(models), "files": digests}
    return (json.dumps(record, indent=2) + "\n").encode()


def _read_record(folder: Path) -> dict[str, Any]:
    path = folder / RECORD
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if _is_record(record):
            return dict(record)
    except (OSError, ValueError, RecursionError):
        pass
    raise FleetError.of(
        what=f"{folder} is not a repository that `fleet init` wrote",
        where=str(path),
        why="it says which files were edited since",
        fix="name the repository's folder, or restore the file from git",
        rule="init-record",
    )


def _is_record(record: Any) -> bool:
    """Return True if a record has the names, the models and the digests that `fleet init` writes."""
    shape = {"version": str, "name": str, "models": list, "files": dict}
    return (
        isinstance(record, dict)
        and all(isinstance(record.get(key), kind) for key, kind in shape.items())
        and _NAME.fullmatch(record["name"]) is not None
        and bool(record["models"])
        and all(isinstance(each, str) and is_name(each) for each in record["models"])
        and all(isinstance(each, str) for each in record["files"].values())
    )


def _check(report: Report, folder: Path, name: str, models: Sequence[str]) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        fix = "name a new or an empty folder, or use `--upgrade` for a repository that `fleet init` wrote"
        report(INIT_FOLDER, f"{folder} is not empty", fix=fix)
    if not str(folder.absolute()).isprintable():
        fix = "name another folder, of printable characters"
        report(INIT_FOLDER, f"the folder {str(folder.absolute())!r}", fix=fix)
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        report(
            FLEET_NAME,
            f"the name is {name!r}",
            fix=f"choose a name like TritonFleet or search-prod: 1 to {_LONGEST_NAME} letters, digits and "
            "hyphens, a letter first and no hyphen last",
        )
    known = starter_models()
    for model in models:
        if model not in known:
            begin = f"begin with one of {', '.join(known)}, and add your own with `fleet new`"
            fix = did_you_mean(model, known, otherwise=begin)
            report(UNKNOWN_MODEL, f"unknown model {model!r}", fix=fix)


def _fleet_name(folder: Path) -> str:
    """Return a name like the folder's: SearchModels for search_models."""
    own = folder.resolve().name
    words = re.findall(r"[A-Za-z0-9]+", own) if own.isascii() else []
    if not words:
        raise FleetError.of(
            what=f"the folder's name, {own!r}, does not make a name of a fleet",
            where="fleet init DIR",
            why="another folder could get the same name, and its stacks too",
            fix="choose a name with `--name`, such as search-prod",
            rule="fleet-name",
        )
    return "".join(word[:1].upper() + word[1:] for word in words)


def _version() -> str:
    return importlib.metadata.version("triton-fleet")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _diff(path: str, before: bytes, after: bytes) -> str:
    old, new = (each.decode("utf-8", errors="replace").splitlines(keepends=True) for each in (before, after))
    return "".join(difflib.unified_diff(old, new, fromfile=path, tofile=f"{path} of this version"))
