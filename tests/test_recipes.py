"""Every recipe synthesizes without changes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from aws_cdk import App
from aws_cdk.assertions import Template

from app import declare
from triton_fleet.app.synthesis import declare_stages

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "recipes.md").read_text()
PREAMBLE, *PARTS = re.split(r"^## ", PAGE, flags=re.MULTILINE)


def _code(text: str) -> str:
    return "".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))


SECTIONS = {part.partition("\n")[0]: _code(part) for part in PARTS if _code(part)}
assert SECTIONS


def _resources(code: str) -> dict[str, object]:
    names: dict[str, object] = {}
    exec(_code(PREAMBLE) + code, names)  # noqa: S102  our own page
    found: dict[str, object] = Template.from_stack(names["stack"]).to_json()["Resources"]  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("title", SECTIONS)
def test_a_recipe_synthesises_and_adds_something(title: str) -> None:
    assert _resources(SECTIONS[title]).keys() > _resources("").keys()


def test_the_configuration_in_it_is_one() -> None:
    found = re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)

    assert found
    for each in found:
        declare_stages(App(context={"tritonFleet": json.loads(each)}), declare)
