"""What each rule of `fleet check` refuses alone, besides what `broken_models` has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.triton_models import broken_models
from tests.triton_models.check_case import Correct, Server, Spoil, case
from tests.triton_models.correct_artifacts import (
    BERT,
    CHECKPOINT,
    CHECKPOINT_FILE,
    DIALOGUE,
    FOREST,
    GRAPH,
    MINILM,
    OLD_BERT,
    PACKED,
    PACKED_RESNET50,
    REPOSITORY,
    RESNET50,
    ROWS,
    ROWS_FILE,
    ROWS_ON_CUDA,
    STREAMING,
    XGBOOST,
    checkpoint_file,
    unpacked,
    write_ensemble_around,
)
from tests.triton_models.model_folders import PYTHON_CODE, tar, write, write_ensemble, write_plain
from tests.triton_models.real_networks import onnx_file, script_archive, side_weights
from tests.triton_models.spoils import (
    ENVIRONMENT,
    PACKAGES,
    POINTER,
    added,
    built_for,
    copied,
    edited,
    exported,
    having,
    linked,
    listing_twice,
    moved,
    packed,
    renamed,
    rewritten,
    said,
    stepped,
    streaming,
    tagged,
    with_a_name_of_bytes,
    with_a_pipe,
    without,
    written,
)

CALLER = "minilm_pooling/1/model.py"
UNLOAD = "        self.models.unload()\n"
BF16 = '"scores" data_type: TYPE_FP32', '"scores" data_type: TYPE_BF16'
EXTRA_ARGUMENT = "def forward(self: Net, x: Tensor, m: Tensor) -> Tensor"
COUNTED = ("onnx-tensor",)
"""ONNX Runtime's backend compares the number of inputs with the network's."""
NO_GPU = "ml.c7i.2xlarge"
TENSORRT = (
    'name: "cuda" parameters { key: "gpu_mem_limit" value: "1073741824" }',
    'name: "tensorrt" parameters { key: "precision_mode" value: "BF16" }',
)


def write_pipeline(root: Path) -> None:
    write(root / "decode/1/pipeline.dali", b"pipeline")
    text = 'name: "decode" backend: "dali" max_batch_size: 8 default_model_filename: "pipeline.dali"'
    for side, name in (("input", "IMAGE"), ("output", "PIXELS")):
        text += f' {side} {{ name: "{name}" data_type: TYPE_UINT8 dims: [ -1 ] }}'
    write(root / "decode/config.pbtxt", text.encode())


def write_fallback(root: Path) -> None:
    """The backend tries dali.py after any file that the configuration names."""
    write_pipeline(root)
    (root / "decode/1/pipeline.dali").rename(root / "decode/1/dali.py")


PIPELINE = Correct("pipeline", write_pipeline)
FALLBACK = Correct("fallback", write_fallback)


def write_on_tensorrt(root: Path) -> None:
    RESNET50.write(root)
    said("resnet50", *TENSORRT)(root)


ON_TENSORRT = Correct("on-tensorrt", write_on_tensorrt, Server(release="26.05", endpoint="single-model"))


def packed_without_its_folder(archive: Path) -> None:
    """The model directory is the top of an archive."""
    tar(unpacked(archive) / "resnet50", archive)


def packed_with_a_link_outside(archive: Path) -> None:
    (unpacked(archive) / "resnet50/shared").symlink_to("/usr")
    tar(unpacked(archive), archive, links=True)


def cut_short(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:-4])


def ensembles_in_a_circle(root: Path) -> None:
    write_ensemble_around("search", root / "minilm")


def without_probabilities(config: Any) -> None:
    config.parameters["predict_proba"].string_value = "false"


def calling(model: str) -> Spoil:
    """All models but the ensemble call the same one."""
    return edited(model, lambda it: setattr(it.parameters["fleet.calls.judge"], "string_value", "judge"))


FILES = (
    case("no-model", RESNET50, without("resnet50")),
    case("too-deep", RESNET50, moved("resnet50", "models/resnet50")),
    case("build-record", BERT, written("build.json", b"[]")),
    case("build-record", BERT, built_for(release="25.99"), release=None),
    case("build-record", BERT, built_for(gpu="A11"), gpu=None),
    case("label-file", RESNET50, said("resnet50", '"labels.txt"', '"../labels.txt"')),
    case("lfs-pointer", RESNET50, written("resnet50/1/model.onnx", POINTER)),
    case("version-missing", DIALOGUE, moved("dialogue/1", "dialogue/007")),
    case("unreadable", RESNET50, without(".")),
    case("unpackable", RESNET50, linked("resnet50/shared", "/usr")),
    case("unpackable", RESNET50, linked("one", "two"), linked("two", "one"), times=2),
    case("unpackable", RESNET50, with_a_pipe),
    case("unpackable", RESNET50, with_a_name_of_bytes),
    case("archive-damaged", PACKED_RESNET50, cut_short),
    case("archive-link", PACKED_RESNET50, packed_with_a_link_outside, times=2),
)

SAGEMAKER = (
    case("model-name", RESNET50, renamed("resnet 50")),
    case("several-models", MINILM, without("minilm")),
    case("several-ensembles", MINILM, copied("minilm", "other")),
    case("ensemble-undetected", MINILM, said("minilm", '"ensemble"', "'ensemble'")),
    case("ensemble-in-comment", MINILM, said("judge", "name:", '# of a platform: "ensemble"\nname:')),
    case("inner-model", MINILM, without("judge")),
    case("inner-model-name", MINILM, rewritten(CALLER, "model_name=name", 'model_name="judge"')),
    case("inner-model-name", MINILM, rewritten(CALLER, "CalledModels(args)", 'load_model("judge")')),
    case("inner-model-unload", MINILM, rewritten(CALLER, UNLOAD, "        pass\n")),
    case("inner-model-instances", MINILM, said("minilm_pooling", "count: 1", "count: 2")),
    case(
        "inner-model-callers",
        MINILM,
        *(calling(f"minilm_{each}") for each in ("tokenizer", "encoder")),
        calling("judge"),
    ),
    case("decoupled", STREAMING, endpoint="multi-model"),
    case("root-config", PACKED_RESNET50.on(endpoint="single-model"), packed_without_its_folder),
)

CONFIGURATION = (
    case("backend-missing", RESNET50, said("resnet50", "backend:", "platform:")),
    case(
        "backend-missing", RESNET50, said("resnet50", 'backend: "onnxruntime"', 'platform: "tensorrt_plna"')
    ),
    case("tensor-twice", RESNET50, listing_twice("resnet50", "input"), also=COUNTED),
    case("tensor-twice", BERT, listing_twice("bert", "output")),
    case("batch-tensors", RESNET50, said("resnet50", "BATCH_ITEM_SHAPE", "9")),
    case("control-values", DIALOGUE, said("dialogue", "false_true: [ 0, 1 ]", "false_true: [ 0, 1, 2 ]")),
    case("instance-gpu", RESNET50, said("resnet50", "gpus: [ 0 ]", "gpus: [ 1 ]")),
    case("instance-gpu", RESNET50, said("resnet50", "gpus: [ 0 ]", ""), instance_type=NO_GPU),
    case("warm-up", RESNET50.on(endpoint=None), listing_twice("resnet50", "input"), also=COUNTED),
    case("ensemble-cycle", REPOSITORY, ensembles_in_a_circle, times=2),
    case("decoupled-inputs", STREAMING, streaming("minilm_encoder")),
    case("step-tensor", REPOSITORY, stepped(1, lambda it: it.input_map.update(words="ids"))),
)

BACKENDS = (
    case("bf16-tensor", RESNET50, said("resnet50", *BF16), exported("resnet50")),
    case("onnxruntime-parameter", RESNET50, said("resnet50", '"4"', '"four"')),
    case("accelerator", RESNET50, said("resnet50", '"cuda"', '"cudnn"')),
    case("accelerator", ON_TENSORRT, said("resnet50", "precision_mode", "precision")),
    case("accelerator", ON_TENSORRT, said("resnet50", "BF16", "BF8")),
    case("accelerator", ON_TENSORRT, release="25.09"),
    case("engine-at-load", RESNET50, said("resnet50", TENSORRT[0], 'name: "tensorrt"')),
    case("accelerator", ROWS_ON_CUDA, release="24.05"),
    case("python-parameter", MINILM, said("minilm_pooling", '"no"', '"No"')),
    case(
        "python-file",
        MINILM,
        said("minilm_pooling", '"model.py"', '"model.bin"'),
        moved(CALLER, "minilm_pooling/1/model.bin"),
    ),
    case("python-code", MINILM, rewritten(CALLER, "TritonPythonModel", "Model")),
    case("python-code", ROWS, rewritten("code/1/model.py", "(self, requests)", "(self)")),
    case("python-name", MINILM, said("minilm_pooling", "count: 1", 'count: 1 name: "[0]"')),
    case("backend-unknown", MINILM, said("minilm_pooling", '"python"', '"Python"')),
    case("backend-unknown", BERT, instance_type=NO_GPU),
    case("pytorch-output", REPOSITORY, edited("ranker", lambda it: it.ClearField("output"))),
    case("repository-agent", RESNET50, said("resnet50", '"checksum"', '""')),
    case("model-metrics", RESNET50, said("resnet50", "10, 100", "")),
)

LIGHTGBM_TEXT = (
    b"tree\nversion=v4\nnum_class=1\nmax_feature_idx=4\nobjective=binary sigmoid:1\n\nTree=0\n%s\n\n"
    b"end of trees\n"
)
LIGHTGBM = (
    FOREST,
    said("forest", "xgboost_json", "lightgbm"),
    moved("forest/1/xgboost.json", "forest/1/model.txt"),
)
FORESTS = (
    case("fil-parameter", FOREST, said("forest", "xgboost_json", "xgboost_text")),
    case("fil-parameter", FOREST, said("forest", '"true"', '"True"'), times=2),
    case("fil-parameter", FOREST, said("forest", "output_class", "is_classifier"), release="25.04"),
    case("fil-parameter", FOREST, said("forest", '"0.5"', '"half"')),
    case("fil-parameter", FOREST, written("forest/1/xgboost.json", b"tree\nversion=v4\n")),
    case("fil-parameter", FOREST, written("forest/1/xgboost.json", b"{L\0\0\0\0\0\0\0\x07learner{")),
    case("fil-tensor", FOREST, said("forest", "input__0", "FEATURES")),
    case("fil-tensor", CHECKPOINT, said("forest", "dims: [ 5 ]", "dims: [ 4 ]")),
    case("fil-tensor", CHECKPOINT, said("forest", "dims: [ 5 ]", "dims: [ -1 ]")),
    case("fil-tensor", CHECKPOINT, said("forest", "dims: [ 3 ]", "dims: [ 1 ]")),
    case("fil-tensor", CHECKPOINT, edited("forest", without_probabilities)),
    case("fil-lightgbm", *LIGHTGBM, written("forest/1/model.txt", LIGHTGBM_TEXT % b"is_linear=1")),
    case(
        "fil-lightgbm",
        *LIGHTGBM,
        written("forest/1/model.txt", LIGHTGBM_TEXT % b"threshold=0.5\ndecision_type=4"),
    ),
    case("model-file-missing", FOREST, said("forest", "xgboost_json", "lightgbm")),
    case(
        "fil-xgboost",
        FOREST,
        written("forest/1/xgboost.json", XGBOOST.replace(b'{"trees', b'{"cats":{},"trees') % b"rank:ndcg"),
    ),
    case("fil-xgboost", FOREST, written("forest/1/xgboost.json", XGBOOST % b"reg:absoluteerror")),
    case("fil-xgboost", FOREST, written("forest/1/xgboost.json", b"{}")),
    case("fil-xgboost", FOREST, written("forest/1/xgboost.json", (XGBOOST % b"rank:ndcg")[:-1])),
    case("fil-parameter", FOREST, written("forest/1/xgboost.json", b"")),
    case("fil-parameter", *LIGHTGBM, written("forest/1/model.txt", b"version https://git-lfs")),
    case("fil-lightgbm", *LIGHTGBM, written("forest/1/model.txt", LIGHTGBM_TEXT[:-14] % b"")),
    case(
        "fil-lightgbm",
        *LIGHTGBM,
        written("forest/1/model.txt", LIGHTGBM_TEXT.replace(b"=binary", b"=my") % b""),
    ),
    case(
        "fil-xgboost",
        FOREST.on(release="24.09"),
        said("forest", "xgboost_json", "xgboost_ubj"),
        moved("forest/1/xgboost.json", "forest/1/xgboost.ubj"),
        written("forest/1/xgboost.ubj", b"{L\0\0\0\0\0\0\0\x07learner{i\x05trees[i\x09objective{}"),
        release="24.05",
    ),
    case("fil-checkpoint", CHECKPOINT, written(CHECKPOINT_FILE, checkpoint_file()[:60])),
    case("fil-checkpoint", CHECKPOINT, written(CHECKPOINT_FILE, checkpoint_file(version=5))),
    case("fil-checkpoint", CHECKPOINT, written(CHECKPOINT_FILE, checkpoint_file(targets=2))),
    case("fil-checkpoint", CHECKPOINT, release="24.01"),
    case("fil-gpu", CHECKPOINT, written(CHECKPOINT_FILE, checkpoint_file(base_scores=(1.0, -0.5, -0.5)))),
    case("fil-gpu", FOREST, written("forest/1/xgboost.json", XGBOOST % b"count:poisson"), release="25.04"),
    case(
        "fil-pool",
        CHECKPOINT,
        written(CHECKPOINT_FILE, checkpoint_file() + bytes(1 << 20)),
        added("forest", "instance_group { count: 4100 }"),
    ),
)

RELEASE_AND_GPU = (
    case("backend-removed", GRAPH, release="25.09"),
    case("label-outside", RESNET50.on(release="26.05"), said("resnet50", '"labels.txt"', '"../labels.txt"')),
    case("plan-version", BERT, release="25.04"),
    case("plan-gpu", BERT, gpu="L4"),
    # With a build.json it would also be a plan of another GPU, or of an older TensorRT.
    case("gpu-removed", REPOSITORY, gpu="V100"),
    case("plan-int64", OLD_BERT, said("bert", "TYPE_INT32", "TYPE_INT64")),
    case("unknown-release", RESNET50, release="25.99"),
    case("unknown-gpu", RESNET50, gpu="A11"),
    case("unknown-endpoint", RESNET50, endpoint="multimodel"),
)

ENVIRONMENTS = (
    case("environment-outside", MINILM, said("minilm_pooling", "Y/environment", "Y/../../environment")),
    case("environment-files", MINILM, without(f"{ENVIRONMENT}/bin/python3")),
    case(
        "environment-python", MINILM, moved(f"{ENVIRONMENT}/lib/python3.12", f"{ENVIRONMENT}/lib/python3.10")
    ),
    case(
        "environment-numpy",
        MINILM,
        without(f"{PACKAGES}/numpy"),
        without(f"{PACKAGES}/numpy-2.2.6.dist-info"),
    ),
    case("environment-wheel", MINILM, tagged("cp312-cp312-manylinux_2_17_aarch64")),
    case("environment-wheel", MINILM, tagged("cp311-cp311-manylinux_2_17_x86_64")),
    case("packed-environment", PACKED, packed(python="3.10")),
    case("archive-damaged", PACKED, written(f"{ENVIRONMENT}.tar.gz")),
    case("python-import", ROWS, written("code/1/model.py", PYTHON_CODE + b"def f():\n  import cv2\n")),
    case("python-shared-memory", MINILM, said("minilm_tokenizer", "count: 1", "count: 64")),
    case("python-shared-memory", MINILM, having("minilm_pooling", max_batch_size=1 << 16)),
)

NETWORKS = (
    case("onnx-version", ROWS, written(ROWS_FILE, onnx_file(ir_version=12))),
    case("onnx-version", ROWS, written(ROWS_FILE, onnx_file(opset=24))),
    case("onnx-tensor", ROWS, written(ROWS_FILE, onnx_file(source="z"))),
    case("onnx-tensor", ROWS, written(ROWS_FILE, onnx_file(also=["mask"]))),
    case("onnx-tensor", ROWS, said("rows", "TYPE_FP32", "TYPE_FP16"), times=2),
    case("onnx-tensor", ROWS, said("rows", "max_batch_size: 8", "max_batch_size: 0"), times=2),
    case("onnx-tensor", ROWS, written(ROWS_FILE, onnx_file(size=5)), times=2),
    case("onnx-file", ROWS, written(ROWS_FILE)),
    case("onnx-file", ROWS, written(ROWS_FILE, b"<html>404</html>")),
    case("onnx-side-file", ROWS, written(ROWS_FILE, side_weights())),
    case("onnx-side-file", ROWS, written(ROWS_FILE, side_weights("")), written("rows/1/weights.bin")),
    case("onnx-side-file", ROWS, written(ROWS_FILE, side_weights("/tmp/weights.bin"))),  # noqa: S108
    case(
        "onnx-side-file", ROWS, written(ROWS_FILE, side_weights()), written("rows/1/weights.bin", bytes(63))
    ),
    case(
        "onnx-side-file",
        ROWS,
        written(ROWS_FILE, side_weights(offset=1, length=64)),
        written("rows/1/weights.bin", bytes(64)),
    ),
    case(
        "onnx-side-file",
        ROWS,
        written(ROWS_FILE, side_weights(length=60)),
        written("rows/1/weights.bin", bytes(64)),
    ),
    case(
        "onnx-side-file",
        ROWS,
        written(ROWS_FILE, side_weights("../weights.bin")),
        written("rows/weights.bin", bytes(64)),
        release="26.03",
    ),
    case("torchscript-tensor", ROWS, written("script/1/model.pt", script_archive(EXTRA_ARGUMENT))),
    case("torchscript-file", ROWS, written("script/1/model.pt", b"\x80\x02}q\x00.")),
    case("torchscript-file", ROWS, written("script/1/model.pt")),
    case(
        "pytorch-parameter",
        ROWS,
        said(
            "script",
            "max_batch_size: 8",
            'max_batch_size: 8 parameters { key: "INFERENCE_MODE" value { string_value: "maybe" } }',
        ),
    ),
    case(
        "dali-file",
        PIPELINE,
        having("decode", default_model_filename="my pipeline.dali"),
        moved("decode/1/pipeline.dali", "decode/1/my pipeline.dali"),
    ),
    case("dali-file", FALLBACK, having("decode", default_model_filename="1/model.dali")),
    case("model-file-missing", PIPELINE, moved("decode/1/pipeline.dali", "decode/1/model.dali")),
)

PLAIN = Correct("plain", write_plain, Server(release=None, gpu=None))
ENSEMBLE = Correct("ensemble", write_ensemble, Server(release=None, gpu=None))
OF_SMALL_MODELS = tuple(
    case(check, correct, spoil)
    for correct, table in ((PLAIN, broken_models.PLAIN), (ENSEMBLE, broken_models.ENSEMBLE))
    for check, broken in table.items()
    for spoil in broken.values()
)

CASES = (
    *FILES,
    *OF_SMALL_MODELS,
    *SAGEMAKER,
    *CONFIGURATION,
    *BACKENDS,
    *FORESTS,
    *RELEASE_AND_GPU,
    *ENVIRONMENTS,
    *NETWORKS,
)
