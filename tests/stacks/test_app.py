"""app.py, where it succeeds in a process of its own with the CDK's template validator on."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from aws_cdk import App
from fleet_app import CONTEXT, ROOT, run_app

from app import declare as declare_stacks
from tests.constructs.declared import declare
from triton_fleet.app import synthesize
from triton_fleet.builds.inputs import RANDOM_WEIGHTS
from triton_fleet.fleet.multi_model_fleet import SILENT_ALARMS


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Synthesize the app without account, region and network."""
    folder = tmp_path_factory.mktemp("cdk.out")
    completed = run_app(folder)
    assert completed.returncode == 0, completed.stderr
    return folder


def _files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_the_fleet_passes_the_validator_and_cdk_nag_with_a_warning_of_random_weights_and_of_alarms_for_no_one(
    output: Path,
) -> None:
    report = json.loads((output / "validation-report.json").read_text())

    found = [
        (each["severity"], each["ruleName"])
        for plugin in report["pluginReports"]
        for each in plugin["violations"]
    ]
    assert sorted(found) == [
        ("warning", f"Annotation::{SILENT_ALARMS}"),
        ("warning", f"Annotation::{RANDOM_WEIGHTS}:resnet50"),
    ]


@pytest.mark.story
@pytest.mark.parametrize(
    ("spoil", "finding"),
    [
        ("import triton_fleet.fleet.model_library as m; m.accept = lambda each: None", "AwsSolutions-S1"),
        (
            "import functools, triton_fleet.endpoint.multi_model as e\n"
            "import triton_fleet.endpoint.hosting.variants as v\n"
            "v.resource_name = lambda *_, **__: ()\n"
            "e.Hosting = functools.partial(v.Hosting, name='All traffic')",
            "VariantName",
        ),
    ],
    ids=["cdk-nag", "validator"],
)
def test_what_they_find_fails_the_synthesis(tmp_path: Path, spoil: str, finding: str) -> None:
    completed = run_app(tmp_path, spoil=spoil)

    assert completed.returncode == 1
    assert finding in completed.stderr
    assert "Traceback" not in completed.stderr


@pytest.mark.story
def test_the_same_input_gives_the_same_bytes(output: Path, tmp_path: Path) -> None:
    completed = run_app(tmp_path, PYTHONHASHSEED="7")

    assert completed.returncode == 0, completed.stderr
    assert _files(tmp_path) == _files(output)


def test_the_command_line_reports_to_nobody() -> None:
    settings = json.loads((ROOT / "cdk.json").read_text())

    assert settings["context"]["cli-telemetry"] is False
    assert settings["versionReporting"] is False


def test_no_template_names_an_account_or_region_of_this_machine(output: Path) -> None:
    manifest = json.loads((output / "manifest.json").read_text())
    stacks = [each for each in manifest["artifacts"].values() if each["type"] == "aws:cloudformation:stack"]

    assert [each["environment"] for each in stacks] == ["aws://unknown-account/unknown-region"] * 2


@pytest.mark.parametrize(
    ("context", "reported"),
    [
        (
            {"instance_type": "ml.g5.2xlrage", "release": "25.9", "region": "mars-1"},
            ["instance_type of the command line", "release of", "region of"],
        ),
        ({"models": "*,minilm"}, ["[every-model]"]),
        ({"models": "minilm,resnet5"}, ["where:    models of the command line"]),
        ({"models": "a\x1b[31m"}, ["a\\x1b[31m"]),
    ],
    ids=["in the configuration", "in a combination", "in a construct", "with control characters"],
)
def test_every_mistake_is_reported_on_stderr_and_nothing_is_written(
    context: dict[str, str],
    reported: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(
        "triton_fleet.app.synthesis.App",
        partial(App, context=CONTEXT | context, outdir=str(tmp_path / "out")),
    )

    assert synthesize(declare_stacks) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("error: ") == len(reported)
    assert [each for each in reported if each not in err] == []
    assert "\x1b" not in err
    assert not list(tmp_path.rglob("*.template.json"))


@pytest.mark.story
def test_models_that_cannot_be_served_are_reported_the_same_way_and_all_at_once(tmp_path: Path) -> None:
    source = declare(tmp_path / "model_builds", "minilm", "resnet50", "words")
    for name, wrong in {"minilm": "max_batch_size=-1", "words": "max_batch_size='many'"}.items():
        path = source / "models" / name / "build.py"
        path.write_text(path.read_text().replace("max_batch_size=0", wrong))
    spoil = f"import pathlib, stacks.models; stacks.models.SOURCE = pathlib.Path({str(source)!r})"

    completed = run_app(tmp_path / "out", context={"models": "*"}, spoil=spoil)

    assert completed.returncode == 1
    assert completed.stderr.count("error: ") == 2
    assert "PythonModel.max_batch_size is 'many'" in completed.stderr
    assert "Traceback" not in completed.stderr


def test_the_feature_flags_that_decide_something_are_set_on_purpose() -> None:
    assert CONTEXT["@aws-cdk/core:validateAgainstDefaultRules"] is True
    assert CONTEXT["@aws-cdk/core:defaultCrossStackReferences"] == "strong"
