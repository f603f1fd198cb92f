"""JSON that a person or another program wrote."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.errors import FleetError
from triton_models.base.suggest import did_you_mean

CDK_JSON = Check(id="cdk-json", source=FROM_ARGUMENTS)
UNKNOWN_STAGE = Check(id="unknown-stage", source=FROM_ARGUMENTS)


def parsed(text: str | bytes) -> Any:
    """Return the value of a JSON document.

    Raises:
        ValueError: It is no JSON, or nested too deep for Python to read.
    """
    try:
        return json.loads(text)
    except RecursionError:
        msg = "nested too deep"
        raise ValueError(msg) from None


def read_cdk_json(path: Path) -> dict[str, Any]:
    """Return the content of a cdk.json, which has a context, empty if it is omitted."""
    where = str(path)
    try:
        document = parsed(path.read_text(encoding="utf-8-sig"))  # as the CDK, which skips the mark
    except (OSError, ValueError) as error:
        said = str(error)
        if isinstance(error, json.JSONDecodeError):
            said, where = error.msg, f"{path}, line {error.lineno}, column {error.colno}"
        raise _invalid(f"cdk.json is not valid JSON: {said}", where) from None
    if not isinstance(document, dict) or not isinstance(document.setdefault("context", {}), dict):
        raise _invalid("cdk.json, or its context, is not an object", where)
    return document


def check_stage(report: Report, name: str, declared: Collection[str]) -> None:
    """Report a stage that cdk.json does not declare."""
    if name in declared:
        return
    fix = "remove it: cdk.json declares no `stages`"
    if declared:
        fix = did_you_mean(name, declared, otherwise=f"use {' or '.join(declared)}, or add it to `stages`")
    report(UNKNOWN_STAGE, f"unknown stage {name!r}", fix=fix)


def _invalid(what: str, where: str) -> FleetError:
    fix = "correct it there: it is a JSON object, without comments or a comma after the last entry"
    return CDK_JSON.error(what=what, where=where, fix=fix)
