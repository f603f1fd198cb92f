"""`fleet new`: start a new model build as a copy of a similar one, with new names."""

from __future__ import annotations

import argparse
import ast
import io
import re
import shutil
import tempfile
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton_models.base.errors import Problem, raise_if_any
from triton_models.base.source_files import LEFTOVERS
from triton_models.declare.declaration import NAME_RULE, is_name
from triton_models.declare.reading import load_build, models_folder

# The environment variables that name a model's weights. Models that read the same variable get the same file.
_WEIGHTS_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9_]*_(WEIGHTS|GRAPH)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A new model build.

    Attributes:
        name: The name of the new model build.
        like: The model build that was copied.
        folder: The folder of the new model build.
        renamed: The new names, by the names in the copied declaration.
    """

    name: str
    like: str
    folder: Path
    renamed: Mapping[str, str]
    exit_code: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON-ready data."""
        return {
            "name": self.name,
            "like": self.like,
            "folder": str(self.folder),
            "renamed": dict(self.renamed),
        }

    def lines(self) -> Iterator[str]:
        """Yield the folder, the new names and the next steps."""
        yield str(self.folder)
        for old, new in self.renamed.items():
            yield f"  {old} is now {new}"
        yield f"Next: declare the model in {self.folder / 'build.py'}, then run `fleet build {self.name}` and"
        yield f"`fleet check build/{self.name}`. Add it to `models` in cdk.json to build and serve it in AWS."


def run(arguments: argparse.Namespace) -> Begun:
    """Run `fleet new`.

    Raises:
        FleetError: The name is invalid or taken, or the model to copy does not exist.
    """
    return begin(arguments.name, like=arguments.like, models=arguments.models)


def begin(name: str, *, like: str, models: Path | None = None) -> Begun:
    """Copy a model build, and rename everything in it that must be unique in a repository.

    Args:
        name: The name of the new model.
        like: The folder to copy.
        models: The folder of model builds; by default that of `models_folder`.

    Raises:
        FleetError: The name is invalid or taken, or the model to copy does not exist.
    """
    folder = models or models_folder()
    raise_if_any(_problems(name, folder))
    original = load_build(like, folder)
    renamed = _new_names(like, name, [model.name for model in original.models])
    variable = rf"{_variable(name)}_\1"
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder) as staging:
        copy = Path(staging) / name
        shutil.copytree(folder / like, copy, ignore=shutil.ignore_patterns(*LEFTOVERS))
        for source in sorted(copy.rglob("*.py")):
            text = source.read_text(encoding="utf-8")
            text = _WEIGHTS_VARIABLE.sub(variable, _rename(text, renamed))
            source.write_text(text, encoding="utf-8")
        load_build(name, Path(staging))
        copy.rename(folder / name)
    return Begun(name=name, like=like, folder=folder / name, renamed=renamed)


def _problems(name: str, folder: Path) -> Iterator[Problem]:
    if not is_name(name):
        yield Problem(
            what=f"the name {name!r}",
            where="fleet new NAME",
            expected=NAME_RULE,
            why="it becomes a folder, a Triton model and the prefix of artifact names",
            fix="choose another name",
            rule="model-name",
        )
    elif (folder / name).exists():
        yield Problem(
            what=f"{folder / name} exists",
            where="fleet new NAME",
            expected="a name that no model has yet",
            why="`fleet new` does not overwrite anything",
            fix="choose another name, or remove that folder",
            rule="model-taken",
        )


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
