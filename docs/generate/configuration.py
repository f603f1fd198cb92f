"""docs/configuration.md: the settings in cdk.json, from FleetConfig."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from docs.generate.docstrings import described, load, prose, type_of
from triton_fleet.app.config import FleetConfig

PAGE = Path(__file__).resolve().parents[1] / "configuration.md"

# The JSON in cdk.json for each type of a field.
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
_HEAD = """\
# Configuration

`cdk.json` holds the settings of the fleet under `context.tritonFleet`. Every key has a default. An unknown
key, a value of the wrong kind and values that do not fit together fail at `cdk synth`, all at once.

```json
{"context": {"tritonFleet": {"instance_type": "ml.g5.2xlarge", "models": ["minilm"], "max_capacity": 4}}}
```

`-c` changes a setting for one command: `npx cdk deploy --all -c max_capacity=8 -c models=minilm,resnet50`.
"""


def page() -> str:
    """Return the page."""
    documented = load("triton_fleet")["app.config.FleetConfig"]
    meanings = described(documented, "attributes")
    notes = "\n\n".join(map(_note, prose(documented).split("\n\n")[1:]))
    rows = [_row(each, meanings[each.name]) for each in fields(FleetConfig) if each.metadata.get("key", True)]
    table = "\n".join(["| key | kind | default | meaning |", "|---|---|---|---|", *rows])
    return f"{_HEAD}\n{table}\n\n{notes}\n"


def _note(paragraph: str) -> str:
    """Return a paragraph such as "Updates: every strategy ..." with its subject as the heading."""
    subject, _, text = paragraph.partition(": ")
    return f"## {subject}\n\n{text[0].upper()}{text[1:]}"


def _row(each: Field[Any], meaning: str) -> str:
    kind = _KINDS.get(str(each.type)) or type_of(each.type)
    return f"| `{each.name}` | {kind} | {next(_default(each), '')} | {meaning} |"


def _default(each: Field[Any]) -> Iterator[str]:
    """Yield the default as JSON, unless it is the absence of a value."""
    value = each.default_factory() if each.default_factory is not MISSING else each.default
    if value is not None:
        yield f"`{json.dumps(value, default=list)}`"
