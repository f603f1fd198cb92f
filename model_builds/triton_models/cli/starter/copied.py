"""A new model build as a copy of a similar one, with new names."""

from __future__ import annotations

import ast
import io
import re
import shutil
import tokenize
from collections.abc import Mapping
from pathlib import Path

from triton_models.base.errors import FleetError
from triton_models.base.source_files import LEFTOVERS
from triton_models.declare.reading import load_build

# The environment variables that name a model's weights. Models that read the same variable get the same file.
_WEIGHTS_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9_]*_(WEIGHTS|GRAPH)\b")


def copy_of(like: str, name: str, *, models: Path, staging: Path) -> Mapping[str, str]:
    """Copy a model build, and rename everything in it that must be unique in a repository.

    Args:
        like: The folder to copy.
        name: The name of the new model, and of its folder in the staging folder.
        models: The folder of model builds.
        staging: The folder that gets the copy.

    Returns:
        The new names, by the names in the copied declaration.

    Raises:
        FleetError: The model to copy does not exist, or has a file that is not Python.
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
