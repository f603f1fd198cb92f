"""The stage that a rehearsal deploys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.reported import reported
from triton_models.base.errors import FleetError
from triton_rehearsal.cdk import Stage, read_stage

HERE = ["-c", "account=123456789012"]
STAGES = {
    "development": {"account": "111111111111", "region": "eu-west-1"},
    "production": {"region": "eu-west-2"},
}


def _stage(folder: Path, settings: Any, name: str | None = None) -> Stage:
    (folder / "cdk.json").write_text(json.dumps({"context": {"tritonFleet": settings}}))
    return read_stage(folder, name)


def test_the_first_or_named_stage_is_rehearsed_in_its_region_and_the_account_of_the_embedded_aws(
    tmp_path: Path,
) -> None:
    first = _stage(tmp_path, {"stages": STAGES})
    named = _stage(
        tmp_path, {"account": "222222222222", "region": "eu-west-1", "stages": STAGES}, "production"
    )

    assert (first.region, first.context()) == ("eu-west-1", ["-c", "stage=development", *HERE])
    assert (named.region, named.context()) == ("eu-west-2", ["-c", "stage=production", *HERE])


@pytest.mark.parametrize(
    ("settings", "name", "fix"),
    [
        ({"stages": STAGES}, "productio", "did you mean production?"),
        ({"name": "Search"}, "production", "remove it: cdk.json declares no `stages`"),
    ],
)
def test_an_unknown_stage_is_one_error_before_anything_starts(
    tmp_path: Path, settings: Any, name: str, fix: str
) -> None:
    with reported("unknown-stage") as problems:
        _stage(tmp_path, settings, name)

    assert [(each.what, each.where, each.fix) for each in problems] == [
        (f"unknown stage {name!r}", "--stage", fix)
    ]


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ([], "tritonFleet is []"),
        ({"stages": ["production"]}, "stages is ['production']"),
        ({"stages": {"production": 1}}, "stage 'production' is 1"),
    ],
)
def test_settings_of_another_type_are_one_error_before_anything_starts(
    tmp_path: Path, settings: Any, what: str
) -> None:
    with reported("config-value-kind") as problems:
        _stage(tmp_path, settings)

    assert [each.what for each in problems] == [what]


@pytest.mark.parametrize("settings", [{"name": "Search"}, {"stages": {}}, None])
def test_a_fleet_without_stages_is_deployed_as_it_is(tmp_path: Path, settings: Any) -> None:
    assert _stage(tmp_path, settings) == Stage()
    assert Stage().context() == []
    assert _stage(tmp_path, None, "third").context() == ["-c", "stage=third"]  # left to the app


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b'{"context": {\n  "tritonFleet": {"models": ["risk"],}}}', ", line 2, column 3"),
        (b'{"context": "\xff"}', ""),
        (b"[" * 100_000, ""),
        (b'{"context": ["tritonFleet"]}', ""),
        (None, ""),
    ],
    ids=["a comma after the last entry", "not UTF-8", "nested too deep", "no context", "a folder"],
)
def test_a_cdk_json_that_the_cdk_cannot_read_is_refused_with_its_place(
    content: bytes | None, place: str, tmp_path: Path
) -> None:
    path = tmp_path / "cdk.json"
    path.mkdir() if content is None else path.write_bytes(content)

    with pytest.raises(FleetError) as raised:
        read_stage(tmp_path)

    (problem,) = raised.value.problems
    assert problem.rule == "cdk-json"
    assert problem.where.startswith(f"{path}{place}")
