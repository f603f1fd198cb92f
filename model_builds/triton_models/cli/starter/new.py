"""`fleet new`: start a model build: minimal, as a copy of a similar one, or from a trained file."""

from __future__ import annotations

import ast
import io
import os
import re
import shutil
import tempfile
import tokenize
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from triton_models.base import options as opt
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.errors import FleetError
from triton_models.base.files import LEFTOVERS
from triton_models.base.outcome import JsonReady
from triton_models.base.processes import stopped_by_sigterm
from triton_models.cli.starter.cdk_json import cdk_json
from triton_models.cli.starter.from_file import fixed_batch, write_forest, write_minimal, write_onnx
from triton_models.cli.starter.init import STARTER_MODELS, starter_models
from triton_models.declare.declaration import NAME_RULE, is_name
from triton_models.declare.reading import load_build, model_names, models_folder
from triton_models.declare.requires import install_command, missing

REPLACE_EXAMPLES = "replace the examples by real requests"
# The environment variables that name a model's weights. Models that read the same variable get the same file.
_WEIGHTS_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9_]*_(WEIGHTS|GRAPH)\b")
_LONGEST_NAME = 200  # files named after it, such as its archive, have at most 255 bytes

MODEL_NAME = Check(id="model-name", source=FROM_ARGUMENTS)
MODEL_TAKEN = Check(id="model-taken", source=FROM_ARGUMENTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun(JsonReady):
    """A new model build.

    Attributes:
        renamed: The new names, by the names in the copied declaration.
        needs: The properties of an endpoint that can serve the model, besides the usual ones.
        install: The command that installs the packages of the reference; empty if it needs none.
        fixed_batch: The rows that every request must have, because the network's first size is fixed.
        named_in: The cdk.json whose fleet builds the model now; None if it has to be added there.
    """

    name: str
    folder: Path
    next: str = "declare the model"
    needs: tuple[str, ...] = ()
    like: str | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    install: str = ""
    fixed_batch: int | None = None
    named_in: Path | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON-ready data."""
        return {
            "name": self.name,
            "like": self.like,
            "folder": str(self.folder),
            "renamed": dict(self.renamed),
            "needs": list(self.needs),
            "install": self.install or None,
            "fixed_batch": self.fixed_batch,
            "named_in": str(self.named_in) if self.named_in else None,
        }

    def lines(self) -> Iterator[str]:
        """Yield the folder, the new names and the next steps."""
        yield str(self.folder)
        for old, new in self.renamed.items():
            yield f"  {old} is now {new}"
        if self.fixed_batch is not None:
            yield f"Its first size is {self.fixed_batch}, and every request needs as many rows: export with"
            yield "dynamic_shapes to batch."
        if self.install:
            yield f"Its reference needs its framework here: {self.install}"
        yield from (f"It needs {each}." for each in self.needs)
        yield f"Next: {self.next} in {self.folder / 'build.py'}, then run `fleet build {self.name}` and"
        in_aws = (
            f"{self.named_in} names it: a deployment builds and serves it."
            if self.named_in
            else "Add it to `models` in cdk.json to build and serve it in AWS."
        )
        yield f"`fleet check build/{self.name}`. {in_aws}"


@dataclass(frozen=True, kw_only=True)
class NewOptions:
    """Options of `fleet new`."""

    name: opt.Name = opt.argument("the new model's name")
    like: str | None = opt.option(
        "copy this model build, or a model of `fleet init`, with new names", metavar="FOLDER", within=opt.ONE
    )
    onnx: opt.File | None = opt.option(
        "serve this ONNX file, with its names, types and shapes", within=opt.ONE
    )
    forest: opt.File | None = opt.option("serve this forest of XGBoost or LightGBM", within=opt.ONE)
    minimal: bool = opt.flag("declare a small PyTorch network in 20 lines, to edit", within=opt.ONE)
    models: opt.Folder | None = opt.option(opt.MODELS)


def run(options: NewOptions) -> Begun:
    """Run `fleet new`."""
    with stopped_by_sigterm():
        return _run(options)


def _run(options: NewOptions) -> Begun:
    models, onnx, forest = options.models, options.onnx, options.forest
    if options.like:
        return begin_like(options.name, like=options.like, models=models)
    if onnx:
        begun = begin(options.name, lambda folder: write_onnx(onnx, folder), models=models)
        return replace(begun, next=REPLACE_EXAMPLES, fixed_batch=fixed_batch(onnx))
    if forest:
        modules: list[str] = []
        begun = begin(
            options.name, lambda folder: modules.append(write_forest(forest, folder)), models=models
        )
        return replace(
            begun, next=REPLACE_EXAMPLES, install=_install(begun.folder) if missing(modules) else ""
        )
    return begin(options.name, write_minimal, models=models)


def _install(folder: Path) -> str:
    """Return the command that installs a model's requirements, by the pip of its repository if it has one."""
    models = folder.resolve().parent
    pips = (place / ".venv" / "bin" / "pip" for place in (models.parent, models.parent.parent))
    pip = next((os.path.relpath(each) for each in pips if each.is_file()), "pip")
    return install_command(folder, otherwise="").replace("pip", pip, 1)


def begin_like(name: str, *, like: str, models: Path | None = None) -> Begun:
    """Start a model build as a copy of another."""
    renamed: dict[str, str] = {}
    here = models or models_folder()
    starts = like in starter_models() and not (here / like / "build.py").is_file()
    source = STARTER_MODELS if starts else here
    begun = begin(
        name,
        lambda folder: renamed.update(_copy_of(like, name, models=source, staging=folder.parent)),
        models=here,
    )
    return replace(begun, like=like, renamed=renamed)


def begin(
    name: str,
    write: Callable[[Path], object],
    *,
    models: Path | None = None,
    command: str = "fleet new",
    servable: bool = True,
) -> Begun:
    """Start a model build, atomically, and name it in the cdk.json of its repository.

    `write` creates and fills a folder with the model's name. Not `servable` is what the fleet in cdk.json
    cannot serve, and must not name.
    """
    folder = check_name(name, models, command=command)
    fleet = cdk_json(folder)  # first, because one that is not valid must leave no folder
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder) as staging:
        made = Path(staging) / name
        write(made)
        load_build(name, Path(staging))
        made.rename(folder / name)
    named = fleet is not None and (fleet.builds(name) or (servable and fleet.add(name)))
    return Begun(name=name, folder=folder / name, named_in=fleet.path if fleet and named else None)


def check_name(name: str, models: Path | None = None, *, command: str = "fleet new") -> Path:
    """Check that a model may have a name, and return the folder of model builds."""
    folder = models or models_folder()
    model_names(folder)  # refuses a missing folder
    report = Report(f"the name of {command}")
    _check(report, name, folder)
    report.raise_if_any()
    return folder


def _check(report: Report, name: str, folder: Path) -> None:
    taken = next((each for each in folder.iterdir() if each.name.lower() == name.lower()), None)
    if not is_name(name) or len(name) > _LONGEST_NAME:
        report(MODEL_NAME, f"the name {name!r}", fix=f"choose a name of 1 to {_LONGEST_NAME} {NAME_RULE}")
    elif taken is not None:
        report(MODEL_TAKEN, f"{taken} exists", fix="choose another name, or remove that folder")


def _copy_of(like: str, name: str, *, models: Path, staging: Path) -> Mapping[str, str]:
    """Copy a model build, and rename everything in it that must be unique in a repository.

    Return the new names, by the names in the copied declaration.
    """
    original = load_build(like, models)
    renamed = _new_names(like, name, [model.name for model in original.models])
    variable = rf"{_variable(name)}_\1"
    copy = staging / name
    shutil.copytree(models / like, copy, ignore=shutil.ignore_patterns(*LEFTOVERS))
    for source in sorted(copy.rglob("*.py")):
        try:
            text = _WEIGHTS_VARIABLE.sub(variable, _rename(source.read_text(encoding="utf-8"), renamed))
        except (ValueError, SyntaxError, tokenize.TokenError) as error:
            raise FleetError.of(
                what=f"{source.relative_to(staging / name)} cannot be read: {error}",
                where=str(models / like),
                why="the names in it are replaced in the copy",
                fix="correct the file, or remove it: a copied file is Python in UTF-8",
                rule="like-file",
            ) from None
        source.write_text(text, encoding="utf-8")
    return renamed


def _new_names(old: str, new: str, models: list[str]) -> dict[str, str]:
    """Return the new name for each declared name. Names that began with the folder's name still do."""
    names = {old: new}
    for model in models:
        rest = model.removeprefix(old)
        begins = rest != model and not rest[:1].isalnum()
        names[model] = new + rest if begins else f"{new}_{model}"
    return names


def _variable(name: str) -> str:
    """Return the prefix of a model's environment variables, without a leading digit, as shells require."""
    text = re.sub(r"[^A-Z0-9]", "_", name.upper())
    return f"{'MODEL_' if text[0].isdigit() else ''}{text}"


def _rename(source: str, names: Mapping[str, str]) -> str:
    """Replace names in the strings, docstrings and comments of Python source code.

    A string is changed if it is one of the names, or begins with the folder's name. Docstrings and comments
    are changed too, because they show commands, but not if a name is only a part of another word.
    """
    lines = source.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for token in reversed(tokens):  # from the end, so that earlier positions stay valid
        if token.type not in {tokenize.STRING, tokenize.COMMENT}:
            continue
        new = _renamed_token(token, names)
        if new != token.string:
            (first, begin), (last, end) = token.start, token.end
            before, after = lines[first - 1][:begin], lines[last - 1][end:]
            lines[first - 1 : last] = [before + new + after]
    return "".join(lines)


def _renamed_token(token: tokenize.TokenInfo, names: Mapping[str, str]) -> str:
    prose = token.type == tokenize.COMMENT or token.string.endswith('"""')
    if not prose:
        quote = min(token.string.find(mark) for mark in "'\"" if mark in token.string)
        if "f" in token.string[:quote].lower():  # up to Python 3.11 one token, from 3.12 on several
            return token.string
        value = ast.literal_eval(token.string)
        if not isinstance(value, str) or not _is_a_name(value, names):
            return token.string
    words = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    word = re.compile(rf"(?<![\w-])(?:{words})(?![\w-])|(?<![\w-]){re.escape(next(iter(names)))}(?=[_:-]\w)")
    return word.sub(lambda found: names[found[0]], token.string)


def _is_a_name(value: str, names: Mapping[str, str]) -> bool:
    """Return True if a string names the declaration or one of its forms: the folder's name with a suffix."""
    folder = next(iter(names))
    return value in names or bool(re.fullmatch(rf"{re.escape(folder)}[_:-]\w[\w.-]*", value))
