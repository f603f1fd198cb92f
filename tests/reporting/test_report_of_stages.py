"""The report of a fleet with stages: it covers all of them, and keeps them apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from triton_report.assembly import read_assembly
from triton_report.declared import Declared

TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"


def _assembly(folder: Path, stacks: dict[str, dict[str, str]]) -> Path:
    """Write an assembly with resources in each stack: their ids with their paths."""
    artifacts = {}
    for stack, resources in stacks.items():
        template = {"Resources": {logical_id: {"Type": TARGET} for logical_id in resources}}
        (folder / f"{stack}.json").write_text(json.dumps(template))
        artifacts[stack] = {
            "type": "aws:cloudformation:stack",
            "properties": {"templateFile": f"{stack}.json"},
            "metadata": {
                f"/{stack}/{path}/Resource": [{"type": "aws:cdk:logicalId", "data": logical_id}]
                for logical_id, path in resources.items()
            },
        }
    (folder / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    return folder


def test_what_several_stacks_have_is_kept_apart_by_the_stack(tmp_path: Path) -> None:
    stacks = {"Staging": {"A": "Target", "B": "Own"}, "Production": {"A": "Target"}}
    paths = [each.path for each in read_assembly(_assembly(tmp_path, stacks)).of_type(TARGET)]

    assert paths == ["Staging/Target", "Own", "Production/Target"]


@pytest.mark.parametrize(
    ("settings", "built"),
    [
        ({"models": ["a"], "stages": {}}, ["a"]),
        ({"models": ["a"], "stages": {"staging": {}, "production": {"models": []}}}, ["a"]),
        ({"models": ["a"], "stages": {"staging": {"models": "b, c"}, "production": {}}}, ["b", "c", "a"]),
        ({"stages": {"staging": {"models": ["b"]}, "production": {"models": ["b"]}}}, ["b"]),
    ],
)
def test_a_model_is_built_that_any_stage_builds(
    tmp_path: Path, settings: dict[str, Any], built: list[str]
) -> None:
    (tmp_path / "cdk.json").write_text(json.dumps({"context": {"tritonFleet": settings}}))

    assert list(Declared.read(tmp_path).built) == built
