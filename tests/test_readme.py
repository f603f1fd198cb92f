"""The README's examples run, and their output matches."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def code(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_fleet_in_five_lines_synthesises(tmp_path: Path) -> None:
    program = code("python")[0]
    environment = {**os.environ, "CDK_OUTDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, check=True, timeout=120)
    template = json.loads((tmp_path / "Fleet.template.json").read_text())
    kinds = {resource["Type"] for resource in template["Resources"].values()}
    assert {"AWS::SageMaker::Endpoint", "AWS::CodeBuild::Project", "AWS::CloudWatch::Dashboard"} <= kinds


def test_the_fleet_in_five_lines_has_five_statements() -> None:
    assert (
        len([each for each in ast.parse(code("python")[0]).body if not isinstance(each, ast.ImportFrom)]) <= 5
    )


def test_it_names_every_model_with_random_weights() -> None:
    from triton_models.declare.variables import untrained
    from triton_models.spec import models_folder

    said = next(each for each in README.split("\n\n") if "**random weights**" in each)
    examples = re.findall(r"^\| `(\w+)` \|", README.partition("## Add a model")[2], flags=re.MULTILINE)
    names = {name for name in examples if any(True for _ in untrained(models_folder() / name, given=()))}
    assert "resnet50" in names
    assert {name for name in names if f"`{name}`" not in said} == set()


def test_every_verb_of_the_command_line_is_in_it() -> None:
    from triton_models.cli.main import VERBS

    assert [verb for verb in VERBS if f"`fleet {verb}" not in README] == []


def test_every_make_target_that_it_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"(?:`|\$ |>` )make ([a-z-]+)", README))
    assert named - targets == set()
    assert {"rehearse", "test"} <= named


def test_every_test_that_the_page_of_evidence_names_exists() -> None:
    named = re.findall(r"`(tests/[^`]+)`", (ROOT / "docs" / "verified.md").read_text())
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_rehearsal_that_it_shows_has_the_steps_and_titles_of_the_program() -> None:
    shown = code("console")[0]
    program = (ROOT / "rehearsal" / "triton_rehearsal" / "rehearse" / "command.py").read_text()
    found = re.findall(r'reporter\.step\(f?"(.*)"\)', program)
    steps = [step.replace("{target}", "") for step in found if "scenario" not in step]
    result = (ROOT / "rehearsal" / "triton_rehearsal" / "rehearse" / "result.py").read_text()
    titles = re.findall(r'Column\(\s*title="(.*?)"', result)
    assert steps
    assert re.findall(r"^ok +[\d.]+ s  (.*?)(?:  .*)?$", shown, re.MULTILINE) == steps
    assert [title for title in titles if title not in {*re.findall(r"\S+(?: ms)?", shown), "reference"}] == []
    assert [line for line in shown.splitlines() if len(line) > 100] == []
