"""This repository, rehearsed, and every example of the pages about clients and day two against it.

Those for the AWS command line run where it is installed; `tests/test_pages.py` compares them with the API.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.rehearsal.stayed import ROOT, Stayed, staying

pytestmark = pytest.mark.story

CLIENTS = (ROOT / "docs" / "clients.md").read_text()
DAY_TWO = (ROOT / "docs" / "day_two.md").read_text()
PYTHON = {
    section.partition("\n")[0]: "".join(re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL))
    for section in re.split(r"^## ", CLIENTS, flags=re.MULTILINE)
    if "```python" in section
}
SHELL = {"clients": CLIENTS, "day two": DAY_TWO}


@pytest.fixture(scope="module")
def stayed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stayed]:
    """A rehearsal of this repository that has run and stays."""
    with staying(ROOT, tmp_path_factory.mktemp("rehearsal")) as running:
        yield running


def run(command: list[str], stayed: Stayed, folder: Path, **more: str) -> str:
    """Run a command with what a reader of the page has exported, and return its output."""
    environment: Mapping[str, str] = {
        **stayed.document["exports"],
        "PATH": os.environ["PATH"],
        "ENDPOINT": stayed.document["deployed"]["endpoint"],
        "MODEL": stayed.target("minilm"),
        **more,
    }
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_model_that_the_app_names_is_served_and_equals_its_source(stayed: Stayed) -> None:
    named = json.loads((ROOT / "cdk.json").read_text())["context"]["tritonFleet"]["models"]
    assert {made["model"] for made in stayed.document["predictions"]} == set(named)
    assert [made for made in stayed.document["predictions"] if not made["passed"]] == []


@pytest.mark.parametrize("code", PYTHON.values(), ids=PYTHON)
def test_a_client_in_python_is_answered(code: str, stayed: Stayed, tmp_path: Path) -> None:
    repository = stayed.document["deployed"]["repository"]
    code = code.replace("s3://bucket/models/", repository)

    assert len(PYTHON) == 4
    answer = run([sys.executable, "-c", code], stayed, tmp_path)

    assert re.findall(r"\d+", answer) == ["1", "384"] * code.count("print(")


@pytest.mark.skipif(shutil.which("aws") is None, reason="the AWS command line is not installed")
@pytest.mark.parametrize("page", SHELL)
def test_the_commands_for_a_shell_run(page: str, stayed: Stayed, tmp_path: Path) -> None:
    script = "\n".join(re.findall(r"```bash\n(.*?)```", SHELL[page], flags=re.DOTALL))
    script = re.sub(r"^export MODEL=.*$", "", script, flags=re.MULTILINE)  # an artifact of another build

    output = run(["bash", "-euc", script], stayed, tmp_path)

    assert ("EMBEDDING" in output) == (page == "clients")
    assert ("InService" in output) == (page == "day two")
