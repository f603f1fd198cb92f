"""The templates are as they were reviewed: `make snapshots` writes them again.

They have settings and a model of their own, so that changes to cdk.json and new models do not appear in them.
Changes to stacks/ and other versions of the library do.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from aws_cdk import App, Stack
from aws_cdk.assertions import Template

from app import declare
from triton_fleet.app import fleet_configs

SNAPSHOTS = Path(__file__).parent / "snapshots"
SETTINGS = {"name": "Reviewed", "models": ["echo"], "instance_type": "ml.g5.2xlarge"}


@pytest.fixture(scope="module")
def templates() -> dict[str, str]:
    """The template of each stack, with one word for the digest of any uploaded file."""
    app = App(context={"tritonFleet": SETTINGS, "aws:cdk:disable-asset-staging": True})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stacks.models.SOURCE", Path(__file__).parent / "model_builds")
        for config in fleet_configs(app.node, environment={}):
            declare(app, config)
    stacks = [each for each in app.node.children if isinstance(each, Stack)]
    texts = {each.stack_name: json.dumps(Template.from_stack(each).to_json(), indent=1) for each in stacks}
    return {name: re.sub(r"[0-9a-f]{64}", "<digest>", text) for name, text in texts.items()}


@pytest.mark.parametrize("name", ["ReviewedModels", "ReviewedInference"])
def test_a_template_is_as_it_was_reviewed(name: str, templates: dict[str, str]) -> None:
    path = SNAPSHOTS / f"{name}.json"
    assert path.exists() or "CI" not in os.environ, "run `make test`, and commit tests/snapshots"
    if os.environ.get("UPDATE_SNAPSHOTS") or not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(templates[name])

    assert templates[name] == path.read_text(), "run `make snapshots`, and read the diff"
