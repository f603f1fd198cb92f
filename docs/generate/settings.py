"""The page of the settings in `cdk.json`, from the JSON schema of FleetConfig."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

from triton_fleet.app.config import FleetConfig

_HEAD = """\
# Settings

`cdk.json` holds the settings of the fleet under `context.tritonFleet`. Every key has a default. An unknown
key, a value of the wrong kind and values that do not fit together fail at `cdk synth`, all at once.

```json
{"context": {"tritonFleet": {"instance_type": "ml.g5.2xlarge", "models": ["minilm"], "max_capacity": 4}}}
```

`-c` changes a setting for one command: `npx cdk deploy --all -c max_capacity=8 -c models=minilm,resnet50`.

An editor completes and checks the keys with a schema: `python -m triton_fleet.app.schema > cdk.schema.json`
writes it. In VS Code: `"json.schemas": [{"fileMatch": ["cdk.json"], "url": "./cdk.schema.json"}]`.

| key | kind | default | meaning |
|---|---|---|---|
"""


def page() -> str:
    """Return the page."""
    rows = "\n".join(_row(name, each) for name, each in FleetConfig.model_json_schema()["properties"].items())
    _, *notes = inspect.cleandoc(FleetConfig.__doc__ or "").split("\n\n")
    return f"{_HEAD}{rows}\n\n" + "\n\n".join(map(_note, notes)) + "\n"


def _note(paragraph: str) -> str:
    """Return a paragraph such as "Updates: every strategy ..." with its subject as the heading."""
    subject, _, text = paragraph.partition(": ")
    return f"## {subject}\n\n{text[0].upper()}{text[1:]}"


def _row(name: str, schema: Mapping[str, Any]) -> str:
    default = "" if schema["default"] is None else f"`{json.dumps(schema['default'])}`"
    meaning = " ".join(schema["description"].split())
    return f"| `{name}` | {' or '.join(dict.fromkeys(_kinds(schema)))} | {default} | {meaning} |"


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    """Return the JSON types of a setting, or its words."""
    if "enum" in schema:
        return [f"`{json.dumps(each)}`" for each in schema["enum"]]
    kinds = schema.get("type", "object")
    alternatives = [kind for each in schema.get("anyOf", ()) for kind in _kinds(each)]
    return [each for each in alternatives or ([kinds] if isinstance(kinds, str) else kinds) if each != "null"]
