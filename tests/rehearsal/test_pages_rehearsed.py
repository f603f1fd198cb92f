"""This repository, rehearsed, and every example of the pages about clients and day two against it.

Those for the AWS command line run where it is installed; `tests/test_pages.py` compares them with the API.
"""

from __future__ import annotations

import json
import os
import re
import shlex
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
    if "```python\n" in section
}
RECIPES = dict(re.findall(r"```python title=\"(\S+)\"\n(.*?)```", CLIENTS, flags=re.DOTALL))
TEXTS = ["How do I reset my password?", "Where is my parcel?"]
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


def recipe(name: str, stayed: Stayed, folder: Path) -> Mapping[str, str]:
    """Write a recipe into a folder, and return the variables that it needs."""
    assert len(RECIPES[name].splitlines()) <= 40
    (folder / name).write_text(RECIPES[name])
    return {
        "FLEET_ALIAS": stayed.document["deployed"]["alias"],
        "FLEET_REPOSITORY": stayed.document["deployed"]["repository"],
    }


def test_an_application_with_fastapi_answers(stayed: Stayed, tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="FastAPI is not installed: make setup")
    more = recipe("application.py", stayed, tmp_path)
    code = rf"""
import json, re, subprocess, sys, urllib.error, urllib.request
command = [sys.executable, "-m", "uvicorn", "application:app", "--port", "0", "--no-access-log"]
server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
try:
    url = next(found[0] for line in server.stderr if (found := re.search(r"http://\S+", line)))
    def ask(texts):
        body, kind = json.dumps({{"texts": texts}}).encode(), {{"Content-Type": "application/json"}}
        request = urllib.request.Request(url + "/embeddings", body, kind)
        return json.load(urllib.request.urlopen(request))
    rows = ask({TEXTS!r})
    try:
        ask([])
        status = 200
    except urllib.error.HTTPError as error:
        status = error.code
finally:
    server.terminate()
print(json.dumps([len(rows), len(rows[0]), status]))
"""
    answer = run([sys.executable, "-c", code], stayed, tmp_path, **more)
    assert json.loads(answer) == [2, 384, 400]


def test_a_batch_job_goes_on_where_it_ended(stayed: Stayed, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="PyArrow is not installed: make setup")
    parquet = pytest.importorskip("pyarrow.parquet")
    more = recipe("job.py", stayed, tmp_path)
    source, made = tmp_path / "texts", tmp_path / "made"
    source.mkdir()
    made.mkdir()
    for name in ("a", "b"):
        parquet.write_table(arrow.table({"text": TEXTS}), source / f"{name}.parquet")
    (made / "a.parquet").write_text("made before")
    run([sys.executable, "job.py", str(source), str(made)], stayed, tmp_path, **more)
    assert (made / "a.parquet").read_text() == "made before"
    table = parquet.read_table(made / "b.parquet")
    assert table["text"].to_pylist() == TEXTS
    assert [len(each) for each in table["embedding"].to_pylist()] == [384, 384]
    assert [each.name for each in made.iterdir() if each.suffix == ".part"] == []


def test_a_lambda_function_answers_within_its_time(stayed: Stayed, tmp_path: Path) -> None:
    more = recipe("function.py", stayed, tmp_path)
    code = f"""
import json
from function import handler
class Context:
    def get_remaining_time_in_millis(self): return 30_000
asked = lambda texts: handler({{"body": json.dumps({{"texts": texts}})}}, Context())
good, bad = asked({TEXTS!r}), asked([])
print(json.dumps([good["statusCode"], [len(each) for each in json.loads(good["body"])], bad["statusCode"]]))
"""
    answer = run([sys.executable, "-c", code], stayed, tmp_path, **more)
    assert json.loads(answer) == [200, [384, 384], 400]


def test_the_command_line_asks_a_model(stayed: Stayed, tmp_path: Path) -> None:
    deployed = stayed.document["deployed"]
    fleet = [sys.executable, "-m", "triton_models", "invoke", "minilm", "--alias", deployed["alias"]]
    asked = [*fleet, "--repository", deployed["repository"], "--json"]
    more = {"PYTHONPATH": str(ROOT / "model_builds")}
    text = json.loads(run([*asked, "--input", f"TEXT={TEXTS[0]}"], stayed, tmp_path, **more))
    models = ["--models", str(ROOT / "model_builds" / "models")]
    example = json.loads(run([*asked, *models], stayed, tmp_path, **more))
    assert text["outputs"]["EMBEDDING"]["shape"] == [1, 384]
    assert example["outputs"]["EMBEDDING"]["shape"][1] == 384


def test_the_command_line_loads_a_model(stayed: Stayed, tmp_path: Path) -> None:
    deployed = stayed.document["deployed"]
    fleet = [sys.executable, "-m", "triton_models", "load", "minilm", "--alias", deployed["alias"]]
    asked = ["--repository", deployed["repository"], "--rate", "5/s", "--for", "3s", "--json"]
    more = {"PYTHONPATH": str(ROOT / "model_builds")}
    # It ends with 1 where other tests make the generator late.
    found = json.loads(
        run(["bash", "-c", f"{shlex.join([*fleet, *asked])} || true"], stayed, tmp_path, **more)
    )
    assert found["errors"] == {}
    assert found["requests"] > 5


@pytest.mark.skipif(shutil.which("aws") is None, reason="the AWS command line is not installed")
@pytest.mark.parametrize("page", SHELL)
def test_the_commands_for_a_shell_run(page: str, stayed: Stayed, tmp_path: Path) -> None:
    script = "\n".join(re.findall(r"```bash\n(.*?)```", SHELL[page], flags=re.DOTALL))
    script = re.sub(r"^export MODEL=.*$", "", script, flags=re.MULTILINE)  # an artifact of another build

    output = run(["bash", "-euc", script], stayed, tmp_path)

    assert ("EMBEDDING" in output) == (page == "clients")
    assert ("InService" in output) == (page == "day two")
