"""The page of a rehearsal as HTML, which needs no network: its file, its document and its Markdown."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from triton_models.base.errors import FleetError

_HTML = ".html"
_DOCUMENT, _LIVE, _TITLE = "{{document}}", "{{live}}", "{{title}}"


def check_target(file: Path) -> None:
    """Check that a report can be written to a file, before there is anything to write."""
    if file.suffix != _HTML:
        raise FleetError.of(
            what=f"the report is to be {file.name!r}",
            where="--report",
            fix=f"name it {file.stem or 'rehearsal'}{_HTML}",
        )
    if not file.absolute().parent.is_dir():
        raise FleetError.of(
            what=f"there is no folder {file.absolute().parent}",
            where="--report",
            fix="create it, or name another one",
        )


def write(document: Mapping[str, Any], file: Path) -> None:
    """Write a document as HTML."""
    file.write_text(html_page(in_json(document), live=False), encoding="utf-8")


def html_page(document: str, *, live: bool) -> str:
    """Return the page with a document in JSON. A live one asks for newer documents."""
    played = json.loads(document).get("scenario")
    title = f"Scenario {played['scenario']}: fleet rehearsal" if played else "Fleet rehearsal"
    page = _template().replace(_TITLE, escape(title)).replace(_LIVE, "true" if live else "false")
    # In a script element "<" could end it, or begin a comment.
    return page.replace(_DOCUMENT, document.replace("<", "\\u003c"))


@cache
def _template() -> str:
    return (Path(__file__).parent / "page.html").read_text(encoding="utf-8")


def in_json(document: Mapping[str, Any]) -> str:
    """Return a document as JSON, with null for infinity and NaN, which JSON does not have."""
    try:
        return json.dumps(document, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(document), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def html_of(text: str) -> str:
    """Return a Markdown text as HTML. Markup in the text is escaped."""
    html: str = _parser().render(text)
    return html


@cache
def _parser() -> MarkdownIt:
    # HTML in a text stays text, so that the page shows nothing but what Markdown can say.
    return MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
