"""The written pages: their links lead somewhere, and their commands and code work."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import botocore.session
import pytest
from aws_cdk.assertions import Template
from botocore import xform_name

from embedded_aws import EmbeddedAws
from tests.rehearsal.served_models import onnx_model, tarball
from triton_models.cli.main import options_class
from triton_models.cli.parser import add_options

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
NOTEBOOKS = (ROOT / "docs" / "bring_models.md").read_text().partition("## From a notebook to a fleet")[2]
NOT_IN_THE_API = {("s3", "cp"), ("logs", "tail"), ("sso", "login")}
"""What the AWS command line adds to the operations of services."""


def options(verb: str) -> set[str]:
    """The options of a verb."""
    parser = argparse.ArgumentParser()
    add_options(parser, options_class(verb))
    return {option for action in parser._actions for option in action.option_strings}


every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def anchors(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them from headings, and those written by hand."""
    text = page.read_text()
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", prose, flags=re.MULTILINE)
    made = (re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles)
    return {*made, *re.findall(r'<a id="([^"]+)">', text)}


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def commands(program: str, text: str) -> Iterator[list[str]]:
    """The words of each call of a program in the blocks for a shell."""
    typed = "\n".join([*blocks("bash", text), *blocks("console", text)]).replace("\\\n", " ")
    for line in re.findall(rf"(?:^|[$(;] ?){program} ([^#|;\n]+)", typed, flags=re.MULTILINE):
        yield shlex.split(line.replace("$(", "").replace(")", "").replace('"', "").replace("'", ""))


@every_page
def test_every_link_leads_to_a_file_and_an_anchor(page: Path) -> None:
    broken = []
    for link in re.findall(
        r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
    ):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if "://" in link:
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@every_page
def test_every_aws_command_is_one_that_the_api_has(page: Path) -> None:
    session = botocore.session.Session()
    for service, verb, *rest in commands("aws", page.read_text()):
        if (service, verb) in NOT_IN_THE_API:
            continue
        model = session.get_service_model("s3" if service == "s3api" else service)
        (name,) = (each for each in model.operation_names if xform_name(each, "-") == verb)
        shape = model.operation_model(name).input_shape
        known = {xform_name(each, "-") for each in (shape.members if shape else ())}
        options = {word[2:] for word in rest if word.startswith("--")} - {"query", "output"}
        assert options <= known, (service, verb)


@every_page
def test_every_fleet_command_has_a_verb_and_options_that_exist(page: Path) -> None:
    for verb, *rest in commands("fleet", page.read_text()):
        if not verb.startswith("-"):
            given = {word.partition("=")[0] for word in rest if word.startswith("--")}
            assert given - {"--json"} <= options(verb), verb


def test_the_models_of_a_notebook_are_published_unchanged(tmp_path: Path) -> None:
    (tmp_path / "resnet_v0.tar.gz").write_bytes(tarball(onnx_model(2, name="resnet")))
    script, _ = blocks("bash", NOTEBOOKS)
    with EmbeddedAws() as aws:
        aws.client("s3").create_bucket(Bucket="models")
        environment = {
            **os.environ,
            **aws.environment(),
            "FLEET_REPOSITORY": "s3://models/here/",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        done = subprocess.run(
            ["bash", "-ec", script],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    assert re.search(r"^resnet +\S*[0-9a-f]{16}\S* +current", done.stdout, re.MULTILINE)


def test_the_models_of_a_notebook_are_adopted(tmp_path: Path) -> None:
    (tmp_path / "model_builds" / "models").mkdir(parents=True)
    (tmp_path / "resnet_v0.tar.gz").write_bytes(tarball(onnx_model(2, name="resnet")))
    tensor = {"datatype": "FP32", "shape": [1, 2]}
    record = {
        "inputs": [{**tensor, "name": "X", "data": [1, 2]}],
        "outputs": [{**tensor, "name": "Y", "data": [2, 4]}],
    }
    (tmp_path / "recorded.jsonl").write_text(json.dumps(record))
    _, script = blocks("bash", NOTEBOOKS)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-ec", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "resnet: fp32, equal on 1 of your examples; largest difference 0.0e+00 in Y" in done.stdout


def test_the_fleet_without_a_build_job_synthesizes() -> None:
    names: dict[str, object] = {}
    (code,) = blocks("python", NOTEBOOKS)
    exec(code, names)  # noqa: S102  our own page

    template = Template.from_stack(names["stack"])  # type: ignore[arg-type]
    template.resource_count_is("AWS::SageMaker::Endpoint", 1)
    template.resource_count_is("AWS::CodeBuild::Project", 0)
