"""The page of the settings in `cdk.json`, from FleetConfig."""

from __future__ import annotations

import inspect
import json
from dataclasses import MISSING, Field, fields
from typing import Any

import griffe

from triton_fleet.app.config import FleetConfig

_KINDS = {
    "str": "string",
    "str | None": "string",
    "int": "integer",
    "str | int": "integer",
    "float": "number",
    "float | None": "number",
    "bool": "true or false",
    "Mapping[str, str]": "object",
    "Requests": 'object, or "declared"',
    "CapacitySize | None": "string or integer",
    "tuple[str, ...]": "list of strings",
}
"""The JSON in cdk.json for each type of a field."""
_HEAD = """\
# Settings

`cdk.json` holds the settings of the fleet under `context.tritonFleet`. Every key has a default. An unknown
key, a value of the wrong kind and values that do not fit together fail at `cdk synth`, all at once.

```json
{"context": {"tritonFleet": {"instance_type": "ml.g5.2xlarge", "models": ["minilm"], "max_capacity": 4}}}
```

`-c` changes a setting for one command: `npx cdk deploy --all -c max_capacity=8 -c models=minilm,resnet50`.

| key | kind | default | meaning |
|---|---|---|---|
"""


def page() -> str:
    """Return the page."""
    sections = griffe.parse_google(griffe.Docstring(inspect.getdoc(FleetConfig) or ""))
    meanings = {
        each.name: " ".join(each.description.split())
        for section in sections
        if isinstance(section, griffe.DocstringSectionAttributes)
        for each in section.value
    }
    prose = [each.value for each in sections if isinstance(each, griffe.DocstringSectionText)]
    notes = [paragraph for text in prose for paragraph in text.split("\n\n")][1:]
    rows = [_row(each, meanings[each.name]) for each in fields(FleetConfig) if each.metadata.get("key", True)]
    return _HEAD + "\n".join(rows) + "\n\n" + "\n\n".join(map(_note, notes)) + "\n"


def _note(paragraph: str) -> str:
    """Return a paragraph such as "Updates: every strategy ..." with its subject as the heading."""
    subject, _, text = paragraph.partition(": ")
    return f"## {subject}\n\n{text[0].upper()}{text[1:]}"


def _row(each: Field[Any], meaning: str) -> str:
    value = each.default_factory() if each.default_factory is not MISSING else each.default
    default = "" if value is None else f"`{json.dumps(value, default=list)}`"
    return f"| `{each.name}` | {_KINDS.get(str(each.type), f'`{each.type}`')} | {default} | {meaning} |"
