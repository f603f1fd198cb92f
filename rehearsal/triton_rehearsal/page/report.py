"""Writes the page of a rehearsal to a file that needs no network: HTML, or a picture of it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from triton_models.base.errors import FleetError
from triton_rehearsal.page import browser
from triton_rehearsal.page.document import in_json

HTML, PNG = ".html", ".png"

_DOCUMENT, _LIVE, _TITLE = "{{document}}", "{{live}}", "{{title}}"


def check_target(file: Path) -> None:
    """Check that a report can be written to a file, before there is anything to write.

    Raises:
        FleetError: The name ends in neither .html nor .png, its folder does not exist, or a picture needs a
            browser, and there is none.
    """
    if file.suffix not in (HTML, PNG):
        raise FleetError.of(
            what=f"the report is to be {file.name!r}",
            where="--report",
            expected=f"a name that ends in {HTML} or {PNG}",
            fix=f"name it {file.stem or 'rehearsal'}{HTML}",
        )
    if not file.absolute().parent.is_dir():
        raise FleetError.of(
            what=f"there is no folder {file.absolute().parent}",
            where="--report",
            expected="an existing folder for the report",
            fix="create it, or name another one",
        )
    if file.suffix == PNG:
        browser.find()


def write(document: Mapping[str, Any], file: Path) -> None:
    """Write a document as HTML, or as a picture if the name ends in .png.

    Raises:
        FleetError: There is no Chromium for a picture, or it fails.
    """
    text = html_page(in_json(document), live=False)
    if file.suffix != PNG:
        file.write_text(text, encoding="utf-8")
        return
    with tempfile.TemporaryDirectory(prefix="fleet-report-") as folder:
        page = Path(folder) / "report.html"
        page.write_text(text, encoding="utf-8")
        browser.take_picture(page, file)


def html_page(document: str, *, live: bool) -> str:
    """Return the page with a document in it.

    Args:
        document: The document as JSON.
        live: True to let the page ask for newer documents.
    """
    played = json.loads(document).get("scenario")
    title = f"Scenario {played['scenario']}: fleet rehearsal" if played else "Fleet rehearsal"
    page = _template().replace(_TITLE, escape(title)).replace(_LIVE, "true" if live else "false")
    # In a script element "<" could end it, or begin a comment.
    return page.replace(_DOCUMENT, document.replace("<", "\\u003c"))


@cache
def _template() -> str:
    return (Path(__file__).parent / "page.html").read_text(encoding="utf-8")
