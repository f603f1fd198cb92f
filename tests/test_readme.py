"""The README's example runs, and what the first pages show matches the code."""

from __future__ import annotations

import re
from pathlib import Path

from triton_models.declare.searched import untrained
from triton_models.spec import models_folder

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()


def code(language: str, text: str) -> str:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)[0]  # type: ignore[no-any-return]


def test_every_model_with_random_weights_is_named_before_a_deployment() -> None:
    paragraphs = (ROOT / "docs" / "deploy.md").read_text().split("\n\n")
    said = next(each for each in paragraphs if "**random weights**" in each)
    examples = re.findall(r"^\| `(\w+)` \|", TUTORIAL.partition("## 2. Add a model")[2], flags=re.MULTILINE)
    names = {name for name in examples if any(True for _ in untrained(models_folder() / name, given=()))}
    assert "resnet50" in names
    assert {name for name in names if f"`{name}`" not in said} == set()


def test_every_test_that_the_page_of_evidence_names_exists() -> None:
    named = re.findall(r"`(tests/[^`]+)`", (ROOT / "docs" / "verified.md").read_text())
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []
