"""Every recipe synthesizes without changes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from aws_cdk import App
from aws_cdk.assertions import Template

from triton_fleet.app.context import fleet_config

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "recipes.md").read_text()
SECTIONS = re.findall(r"^## (.+?)\n.*?```python\n(.*?)```", PAGE, flags=re.DOTALL | re.MULTILINE)
PREAMBLE = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[0]


@pytest.mark.parametrize("code", [pytest.param(code, id=title) for title, code in SECTIONS])
def test_a_recipe_synthesises(code: str) -> None:
    names: dict[str, object] = {}
    exec(PREAMBLE + code, names)  # noqa: S102  our own page
    template = Template.from_stack(names["stack"])  # type: ignore[arg-type]
    template.resource_count_is("AWS::SageMaker::Endpoint", 1)


def test_the_configuration_in_it_is_one() -> None:
    found = re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)

    assert found
    for each in found:
        fleet_config(App(context={"tritonFleet": json.loads(each)}).node, environment={})


def test_each_way_of_the_library_has_a_recipe() -> None:
    assert len(SECTIONS) >= 6
