import json
import sys
from pathlib import Path

import pytest

from tests.reported import refused, reported
from triton_models.base import extras
from triton_models.base.errors import FleetError
from triton_models.builds.build import BuildOptions, build, run
from triton_models.cli.main import main
from triton_models.spec import load_build


def arguments(*names: str, output: Path, models: Path, gpu: str | None = None, release: str = "25.09"):
    return BuildOptions(names=names, output=output, models=models, gpu=gpu, release=release)


def test_a_build_is_the_artifact_root_with_its_record(tiny, tmp_path):
    root = tiny('job.sources["weights"] = "seed 1"')
    assert root == tmp_path / "out" / "tiny"
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()) == [
        "build.json",
        "tiny/1/model.py",
        "tiny/config.pbtxt",
    ]
    assert json.loads((root / "build.json").read_text()) == {
        "model": "tiny",
        "description": "made up",
        "release": "25.09",
        "gpu": None,
        "tensorrt": None,
        "sources": {"weights": "seed 1"},
        "request": {"X": "FP32 [1]"},
        "answer": {"Y": "FP32 [1]"},
        "max_batch_size": 0,
        "tolerance": 0.0,
    }


def test_a_build_says_that_its_weights_are_random(declare, models, tmp_path, capsys):
    path = declare("tiny")
    seeded = path.read_text().replace(
        "ModelDefinition(", "ModelDefinition(weights=RandomWeights(seed=1), ", 1
    )
    path.write_text(f"from triton_models.spec import RandomWeights\n{seeded}")
    build("tiny", output=tmp_path / "out", models=models)
    assert "tiny has random weights" in capsys.readouterr().err


def test_below_a_repository_its_models_are_built_into_the_current_folder(
    declare, models, tmp_path, monkeypatch
):
    declare("tiny")
    below = tmp_path / "repository" / "docs"
    below.mkdir(parents=True)
    models.rename(tmp_path / "repository" / "models")
    monkeypatch.chdir(below)
    assert main(["build", "tiny"]) == 0
    assert (below / "build" / "tiny" / "tiny" / "config.pbtxt").is_file()


def test_the_command_names_the_precision_and_prints_the_path_alone(
    declare, models, tmp_path, monkeypatch, capsys
):
    compared = "Compared(examples=0, drawn=512, allowed=0.1, precision='fp16')"
    imports = "from triton_models.artifact.compared import Compared"
    declare("tiny", f"{imports}; job.compared['tiny'] = {compared}; job.precisions.append('fp16')")
    declare("other")
    output, command = tmp_path / "out", ["build", "tiny", "other", "--models", str(models), "--output"]
    assert main([*command, str(output)]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [str(output / "tiny"), str(output / "other")]
    assert err.splitlines() == [
        "tiny: fp16, equal on 512 drawn rows",
        "other: fp32, not compared: `fleet verify` does that",
    ]
    assert main([*command, str(output), "--json"]) == 0
    built = json.loads(capsys.readouterr().out)["built"]
    assert [each["precision"] for each in built] == ["fp16", "fp32"]


def test_a_second_build_replaces_the_first(tiny, tmp_path):
    tiny('(version / "old").touch()')
    root = tiny()
    assert not (root / "tiny" / "1" / "old").exists()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["tiny"]


def test_a_failed_build_names_the_model_the_error_and_the_line_and_leaves_nothing(declare, models, tmp_path):
    failing = r'raise RuntimeError("\x1b[31mno such\x1b[0m layer")'  # in the color of an exporter
    path = declare("tiny", failing)
    problem = refused(build, "tiny", output=tmp_path / "not" / "there" / "yet", models=models)
    assert problem.what == "building 'tiny' failed: RuntimeError: no such layer"
    line = path.read_text().splitlines().index(f"    {failing}") + 1
    assert problem.where == f"{path}:{line}"
    assert not (tmp_path / "not").exists()


def test_a_failed_build_keeps_the_earlier_one(tiny, tmp_path):
    root = tiny()
    with pytest.raises(FleetError):
        tiny('(version / "half-made").touch(); 1 / 0')
    assert (root / "tiny" / "1" / "model.py").read_text() == "# version 1\n"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["tiny"]


def test_an_interrupted_build_leaves_nothing(tiny, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        tiny("raise KeyboardInterrupt")
    assert not (tmp_path / "out").exists()


def test_a_declaration_that_exits_is_an_error_of_its_line(tiny, declare, models):
    assert refused(tiny, "raise SystemExit(4)").rule == "build-failed"
    declare("tiny", declaration="import sys\nsys.exit()\n")
    problem = refused(load_build, "tiny", models)
    assert (problem.rule, problem.where) == ("bad-declaration", f"{models / 'tiny' / 'build.py'}:2")


def test_a_missing_package_is_installed_with_the_extra_and_in_a_job_from_the_locks(tiny, monkeypatch):
    assert (
        "python -m triton_models.builds.locked build" in refused(tiny, "import a_package_that_nobody_has").fix
    )
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert refused(tiny, "import onnx").fix == "pip install 'triton-fleet[build]'"
    monkeypatch.setattr(extras, "DISTRIBUTION", "nothing-of-this-name")
    assert "python -m triton_models.builds.locked build" in refused(tiny, "import onnx").fix


def test_a_folder_that_is_no_build_is_not_replaced(declare, models, tmp_path):
    declare("tiny")
    precious = tmp_path / "out" / "tiny" / "thesis.tex"
    precious.parent.mkdir(parents=True)
    precious.touch()
    with pytest.raises(FleetError, match="exists and is not a build"):
        build("tiny", output=tmp_path / "out", models=models)
    assert precious.exists()


def test_a_write_that_makes_no_model_is_refused(declare, models, tmp_path):
    path = declare("tiny")
    path.write_text(path.read_text().replace("def write(job):", "def write(job):\n    return"))
    with pytest.raises(FleetError, match="build-empty"):
        build("tiny", output=tmp_path / "out", models=models)


def test_two_models_of_one_name_in_an_artifact_are_refused(tiny):
    with pytest.raises(FleetError) as caught:
        tiny('job.model(plain(name="tiny", backend="b", max_batch_size=0, inputs=[], outputs=[]))')
    assert caught.value.problems[0].rule == "duplicate-model"
    assert caught.value.problems[0].where.startswith("model 'tiny': ")


def test_an_output_folder_that_is_a_file_is_refused(declare, models, tmp_path):
    declare("tiny")
    (tmp_path / "out").touch()
    with pytest.raises(FleetError, match="cannot write to"):
        build("tiny", output=tmp_path / "out", models=models)


@pytest.mark.parametrize(
    ("given", "rule"), [({"release": "25.9"}, "unknown-release"), ({"gpu": "A10"}, "unknown-gpu")]
)
def test_an_unknown_release_or_gpu_is_refused_before_anything_is_made(given, rule, tiny, tmp_path):
    with reported(rule):
        tiny(**given)
    assert not (tmp_path / "out").exists()


def test_a_model_that_fails_does_not_keep_the_others_from_being_built(declare, models, tmp_path):
    declare("bad", "1 / 0")
    declare("good")
    declare("worse", "[][1]")
    with pytest.raises(FleetError) as caught:
        run(arguments("bad", "good", "worse", output=tmp_path / "out", models=models))
    assert [problem.what.split("'")[1] for problem in caught.value.problems] == ["bad", "worse"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["good"]


def test_the_outcome_tells_people_the_paths_and_machines_the_records(declare, models, tmp_path, capsys):
    declare("tiny", 'print("exporting")')
    outcome = run(arguments("tiny", "tiny", output=tmp_path / "out", models=models))
    assert outcome.exit_code == 0
    assert list(outcome.lines()) == [str(tmp_path / "out" / "tiny")]
    (record,) = outcome.as_dict()["built"]
    assert (record["model"], record["path"]) == ("tiny", str(tmp_path / "out" / "tiny"))
    assert capsys.readouterr().out == ""  # what exporters print must not mix with the result
