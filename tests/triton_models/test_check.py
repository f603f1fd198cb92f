from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.triton_models.broken_models import (
    CORRELATION,
    START,
    STATE,
    WARM,
    fitting,
    net,
    reshaped,
    sequences,
    set_dims,
    text,
    warmed,
    warmed_with_text,
)
from tests.triton_models.check_case import Spoil, run
from tests.triton_models.correct_artifacts import write_resnet50
from tests.triton_models.model_folders import PYTHON_CODE, write, write_ensemble, write_plain
from tests.triton_models.spoils import added, both, copied, edited, having, moved, said, without, written
from triton_models.artifact.pack.pack import pack
from triton_models.artifact.pbtxt import plain, tensor, write_config
from triton_models.check.check import check_path


def _rules(path: Path) -> set[str]:
    return {problem.rule for problem in check_path(path)}


VALID: dict[str, Spoil] = {
    "several versions": copied("resnet50/1", "resnet50/2"),
    "an old version that is empty": both(
        moved("resnet50/1", "resnet50/2"), lambda root: (root / "resnet50" / "1").mkdir()
    ),
    "a configuration for another host": lambda root: shutil.copytree(
        root / "resnet50" / "1", root / "resnet50" / "configs"
    ),
    "no name": having("resnet50", name=""),
    "the platform spelling": having("resnet50", backend="", platform="onnxruntime_onnx"),
    "the backend of the file": having("resnet50", backend=""),
    "a named file": both(
        having("resnet50", default_model_filename="net.onnx"),
        moved("resnet50/1/model.onnx", "resnet50/1/net.onnx"),
    ),
    "a model that is a folder": both(
        moved("resnet50/1/model.onnx", "resnet50/1/whole.onnx"),
        moved("resnet50/1/whole.onnx", "resnet50/1/model.onnx/model.onnx"),
    ),
    "a plan for each compute capability": both(
        net(lambda c: c.cc_model_filenames.update({"8.6": "a10g.onnx"})),
        moved("resnet50/1/model.onnx", "resnet50/1/a10g.onnx"),
    ),
    "a backend of the user's own": both(
        having("resnet50", backend="mine"),
        without("resnet50/1/model.onnx"),
        written("resnet50/1/libtriton_mine.so", b"library"),
    ),
    "a backend of the user's own in a library of another name": both(
        having("resnet50", backend="mine", runtime="libother.so"), written("resnet50/libother.so", b"library")
    ),
    "a backend of an image of the user's own": both(
        having("resnet50", backend="mine"), written("build.json", b'{"custom_image_adds": ["mine"]}')
    ),
    "a backend of NVIDIA's image for which there are no rules": both(
        having("resnet50", backend="openvino", default_model_filename="model.onnx"),
        written("build.json", b'{"release": "26.05"}'),
    ),
    "an agent of an image of the user's own, which brings the files": both(
        net(lambda c: c.model_repository_agents.agents.add(name="vault")),
        without("resnet50/1"),
        written("build.json", b'{"custom_image_adds": ["vault"]}'),
    ),
    "an output that is listed again": net(lambda c: c.output.append(c.output[0])),
    "the ensemble word in a comment of the only model": said(
        "resnet50", "name:", '# no platform: "ensemble"\nname:'
    ),
    "version zero": moved("resnet50/1", "resnet50/0"),
    "every version": net(lambda config: config.version_policy.SetInParent()),
    "a reshape around a variable size": reshaped("2, -1, 6", "2, 1, -1, 3, 2"),
    "an empty reshape of one element": reshaped("1", ""),
    "sequences": fitting(
        sequences(START % "start", CORRELATION, STATE % "dims: 2 zero_data: true", "oldest { }")
    ),
    "groups on chosen GPUs": added("resnet50", "instance_group { gpus: 0 count: 2 }"),
    "a warm-up": warmed(WARM % ("TYPE_FP32", "3, 224, 224", "zero_data: true"), batch_size=8),
    "a warm-up of texts": warmed_with_text(text(b"", "žluťoučký".encode())),
    "a warm-up of a batch of texts": warmed_with_text(text(b"a", b"b", b"c", b"d"), dims="4"),
    "labels": both(
        net(lambda c: setattr(c.output[0], "label_filename", "labels.txt")),
        written("resnet50/labels.txt", b"cat"),
    ),
    "an accelerator": net(
        lambda c: c.optimization.execution_accelerators.gpu_execution_accelerator.add(
            name="cuda", parameters={"cudnn_conv_algo_search": "HEURISTIC"}
        )
    ),
    "an accelerator of a GPU that no instance uses": net(
        lambda c: (
            c.ClearField("instance_group"),
            c.instance_group.add(kind="KIND_CPU"),
            c.optimization.execution_accelerators.gpu_execution_accelerator.add(name="tensorrt"),
        )
    ),
}


@pytest.mark.parametrize("change", VALID.values(), ids=VALID.keys())
def test_a_valid_plain_model_raises_no_false_alarm(change: Spoil, tmp_path: Path) -> None:
    root = write_plain(tmp_path / "resnet50")
    change(root)

    assert check_path(root) == []


def _inner_model(root: Path) -> None:
    config = plain(
        name="inner",
        backend="python",
        max_batch_size=0,
        inputs=[tensor("a", "FP32", [-1])],
        outputs=[tensor("b", "FP32", [-1])],
    )
    config.model_transaction_policy.decoupled = True
    write_config(config, root / "inner" / "config.pbtxt")
    write(root / "inner" / "1" / "model.py", PYTHON_CODE)


VALID_ENSEMBLES: dict[str, Spoil] = {
    "a model that is called by a name which only its caller knows": written(
        "minilm_pooling/1/model.py", PYTHON_CODE + b"load_model(name); InferenceRequest(model_name=name)"
    ),
    "an output that is listed again": edited("minilm", lambda c: c.output.append(c.output[0])),
    "a model that another calls by itself": _inner_model,
    "a step without batches on full shapes": both(
        having("minilm_pooling", max_batch_size=0),
        edited("minilm_pooling", lambda c: set_dims(c, "output", [-1, 384])),
        edited("minilm_pooling", lambda c: set_dims(c, "input", [-1, -1, 384])),
        edited("minilm_pooling", lambda c: c.input[1].dims.append(-1)),
    ),
    "an optional input that nothing feeds": edited(
        "minilm_pooling", lambda c: c.input.add(name="hint", data_type="TYPE_FP32", dims=[1], optional=True)
    ),
    "an output that nothing reads": edited(
        "minilm_pooling", lambda c: c.output.add(name="pooled", data_type="TYPE_FP32", dims=[384])
    ),
    "an empty version folder of the ensemble": without("minilm/1/.keep"),
    "a file instead of .keep": written("minilm/1/README.md", b"keep"),
    "an inner tensor that is also an output": edited(
        "minilm", lambda c: c.output.add(name="mask", data_type="TYPE_INT32", dims=[-1])
    ),
}


@pytest.mark.parametrize("change", VALID_ENSEMBLES.values(), ids=VALID_ENSEMBLES.keys())
def test_a_valid_ensemble_raises_no_false_alarm(change: Spoil, tmp_path: Path) -> None:
    root = write_ensemble(tmp_path / "minilm")
    change(root)

    assert check_path(root) == []


@pytest.mark.parametrize("name", ["my model", "-x", "a" * 201, "münchen"])
def test_a_name_that_cannot_be_a_target_model_is_refused(name: str, tmp_path: Path) -> None:
    assert _rules(write_plain(tmp_path / name)) == {"model-name"}


def test_the_outcome_tells_accepted_from_refused(tmp_path: Path) -> None:
    good, bad = write_plain(tmp_path / "resnet50"), tmp_path / "nothing"

    outcome = run(good, bad)

    assert outcome.exit_code == 1
    assert next(iter(outcome.lines())) == f"{good}: accepted"
    assert list(outcome.lines())[-1] == f"{bad}: 1 problem"
    assert outcome.as_dict()["paths"][str(good)] == []
    assert run(good).exit_code == 0


def test_an_accepted_model_has_the_precision_that_its_build_recorded(tmp_path: Path) -> None:
    built, other = tmp_path / "built", write_plain(tmp_path / "resnet50")
    write_resnet50(built)
    (built / "build.json").write_text(json.dumps({"model": "resnet50", "precisions": ["fp16"]}))
    packed = pack(built, output=tmp_path / "dist").path

    outcome = run(built, packed, other)

    assert list(outcome.lines()) == [
        f"{built}: accepted, fp16",
        f"{packed}: accepted, fp16",
        f"{other}: accepted",
    ]
    assert outcome.as_dict()["precisions"] == {str(built): "fp16", str(packed): "fp16"}


@pytest.mark.parametrize(
    ("old", "new", "fix"),
    [
        ("1", "v1", "rename v1/ to 1/"),
        ("1", "version_2", "rename version_2/ to 2/"),
        ("1", "V01", "rename V01/ to 1/"),
        ("config.pbtxt", "config.pbtxt.txt", "rename resnet50/config.pbtxt.txt to resnet50/config.pbtxt"),
        ("config.pbtxt", "CONFIG.PBTXT", "rename resnet50/CONFIG.PBTXT to resnet50/config.pbtxt"),
        ("config.pbtxt", "config.pbtext.txt", "write config.pbtxt with name"),
    ],
)
def test_a_name_that_only_looks_right_is_to_be_renamed(old: str, new: str, fix: str, tmp_path: Path) -> None:
    root = write_plain(tmp_path / "root")
    (root / "resnet50" / old).rename(root / "resnet50" / new)

    fixes = [problem.fix for problem in check_path(root)]
    assert any(each.startswith(fix) for each in fixes), fixes


def test_a_model_directory_itself_with_a_misnamed_configuration_is_to_be_renamed(tmp_path: Path) -> None:
    root = write_plain(tmp_path / "root")
    (root / "resnet50/config.pbtxt").rename(root / "resnet50/config.pbtxt.txt")

    [problem] = check_path(root / "resnet50")
    assert problem.fix == "rename resnet50/config.pbtxt.txt to resnet50/config.pbtxt"


def test_an_artifact_of_many_models_is_refused_in_a_short_line(tmp_path: Path) -> None:
    for number in range(200):
        shutil.copytree(
            write_plain(tmp_path / "one", name=f"m{number}") / f"m{number}", tmp_path / f"all/m{number}"
        )

    [problem] = [each for each in check_path(tmp_path / "all") if each.rule == "several-models"]
    assert problem.what == "200 plain models in one artifact: m0, m1, m10 and 197 more"
