"""The JSON schema of cdk.json, for editors: `python -m triton_fleet.app.schema > cdk.schema.json`."""

from __future__ import annotations

import json
from typing import Any

from triton_fleet.app.checks import STAGES
from triton_fleet.app.config import FleetConfig
from triton_fleet.app.context import CONTEXT_KEY


def schema() -> dict[str, Any]:
    """Return the schema; what others keep in cdk.json is left open."""
    settings = FleetConfig.model_json_schema()
    kinds = settings.pop("$defs")
    stage = {**settings, "description": "The settings of a stage, which precede the shared ones."}
    stages = {"type": "object", "additionalProperties": stage}
    shared = {**settings, "properties": {**settings["properties"], STAGES: stages}}
    context = {"type": "object", "properties": {CONTEXT_KEY: shared}}
    return {"type": "object", "properties": {"context": context}, "$defs": kinds}


if __name__ == "__main__":
    print(json.dumps(schema(), indent=2))  # noqa: T201
