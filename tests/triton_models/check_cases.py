"""Every check of `fleet check`: an artifact that is right, and one that only this check refuses.

A case is a correct artifact, which has the subject of the check in its right form, and the one thing that
makes it wrong: a change in it, or another server. The checks are in the order of the modules in
`triton_models.check`.
"""

from __future__ import annotations

from pathlib import Path

from tests.triton_models import broken_models
from tests.triton_models.check_case import Case, Correct, Server, Spoil
from tests.triton_models.correct_artifacts import (
    BERT,
    CHECKPOINT,
    CHECKPOINT_FILE,
    COMPILED,
    DIALOGUE,
    FOREST,
    GRAPH,
    INTEL,
    MINILM,
    OLD_BERT,
    OWN_SERVER,
    PACKED,
    PACKED_RESNET50,
    PACKED_ROWS,
    READER,
    REPOSITORY,
    RESNET50,
    ROWS,
    ROWS_FILE,
    ROWS_OF_IR_10,
    ROWS_ON_CUDA,
    SINGLE_MODEL,
    STREAMING,
    checkpoint_file,
    compiled_file,
    onnx_file,
    script_file,
    unpacked,
    write_ensemble_around,
)
from tests.triton_models.model_folders import Edit, tar, write, write_ensemble, write_plain
from tests.triton_models.spoils import (
    ENVIRONMENT,
    PACKAGES,
    POINTER,
    both,
    built_for,
    copied,
    cut_short,
    edited,
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
    with_a_link_outside,
    with_a_name_of_bytes,
    with_a_pipe,
    without,
    without_line,
    written,
)

CALLER_CODE = "minilm_pooling/1/model.py"


def packed_with_a_link_outside(archive: Path) -> None:
    """The same in an archive."""
    with_a_link_outside(unpacked(archive))
    tar(unpacked(archive), archive, links=True)


def packed_without_its_folder(archive: Path) -> None:
    """The model directory is the top of an archive."""
    tar(unpacked(archive) / "resnet50", archive)


def ensembles_in_a_circle(root: Path) -> None:
    """The ensemble that another one runs runs that one."""
    write_ensemble_around("search", root / "minilm")


def with_four_callers(root: Path) -> None:
    """All models but the ensemble call the same one."""
    for model in ("minilm_tokenizer", "minilm_encoder", "judge"):
        with Edit(root / model) as config:
            config.parameters["fleet.calls.judge"].string_value = "judge"


def packed_rows_of_another_size(archive: Path) -> None:
    """The archive holds another network."""
    folder = archive.with_name("rows-folder")
    write(folder / ROWS_FILE, onnx_file(size=5))
    tar(folder, archive)


FILES = (
    Case("no-model", "an empty folder", RESNET50, without("resnet50")),
    Case("too-deep", "a folder around the model", RESNET50, moved("resnet50", "models/resnet50")),
    Case("config-missing", "no config.pbtxt", RESNET50, without("resnet50/config.pbtxt")),
    Case("build-record", "a list", BERT, written("build.json", b"[]")),
    Case("build-record", "an unknown release", BERT, built_for(release="25.99"), elsewhere={"release": None}),
    Case("build-record", "an unknown GPU", BERT, built_for(gpu="A11"), elsewhere={"gpu": None}),
    Case("version-missing", "no folder", DIALOGUE, without("dialogue/1")),
    Case(
        "model-file-missing",
        "a file of another name",
        RESNET50,
        moved("resnet50/1/model.onnx", "resnet50/1/resnet50.onnx"),
    ),
    Case("label-file", "no such file", RESNET50, said("resnet50", '"labels.txt"', '"names.txt"')),
    Case("label-file", "none next to it", RESNET50, said("resnet50", '"labels.txt"', '"../labels.txt"')),
    Case("lfs-pointer", "weights that are still in Git", RESNET50, written("resnet50/1/model.onnx", POINTER)),
    Case("unreadable", "nothing there", RESNET50, without(".")),
    Case("unpackable", "a link that leads outside", RESNET50, with_a_link_outside),
    Case("unpackable", "a link to nothing", RESNET50, linked("resnet50/shared", "nowhere")),
    Case("unpackable", "a link to its own folder", RESNET50, linked("resnet50/shared", ".")),
    Case("unpackable", "a link upwards", RESNET50, linked("shared", "..")),
    Case("unpackable", "two links to each other", RESNET50, both(linked("one", "two"), linked("two", "one"))),
    Case("unpackable", "a pipe", RESNET50, with_a_pipe),
    Case("unpackable", "a name that is not UTF-8", RESNET50, with_a_name_of_bytes),
    Case("archive-damaged", "an archive without its end", PACKED_RESNET50, cut_short),
    Case("archive-link", "a link that leads outside, packed", PACKED_RESNET50, packed_with_a_link_outside),
)

SAGEMAKER = (
    Case("model-name", "a space", RESNET50, renamed("resnet 50")),
    Case("several-models", "composing models without their ensemble", MINILM, without("minilm")),
    Case("several-ensembles", "the ensemble twice", MINILM, copied("minilm", "other")),
    Case("stray-directory", "a folder next to a plain model", RESNET50, written("words/en.txt")),
    Case("ensemble-undetected", "single quotes", MINILM, said("minilm", '"ensemble"', "'ensemble'")),
    Case(
        "ensemble-in-comment",
        "a comment in a composing model",
        MINILM,
        said("minilm_pooling", "backend:", '# a step of a platform: "ensemble"\nbackend:'),
    ),
    Case("inner-model", "one that is not there", MINILM, without("judge")),
    Case(
        "inner-model-name",
        "a request to a fixed name",
        MINILM,
        rewritten(CALLER_CODE, "model_name=name", 'model_name="judge"'),
    ),
    Case(
        "inner-model-name",
        "a fixed name that the caller loads",
        MINILM,
        rewritten(CALLER_CODE, "CalledModels(args)", 'pb_utils.load_model("judge")'),
    ),
    Case(
        "inner-model-unload",
        "a caller that does not end what it loads",
        MINILM,
        without_line(CALLER_CODE, "unload"),
    ),
    Case(
        "inner-model-instances",
        "a caller with two instances",
        MINILM,
        edited("minilm_pooling", lambda config: setattr(config.instance_group[0], "count", 2)),
    ),
    Case("inner-model-callers", "four models that call others", MINILM, with_four_callers),
    Case("decoupled", "a step that streams", STREAMING, elsewhere={"endpoint": "multi-model"}),
    Case(
        "root-config",
        "packed without its folder",
        PACKED_RESNET50.on(SINGLE_MODEL),
        packed_without_its_folder,
    ),
)

CONFIGURATION = (
    Case("backend-missing", "an unknown platform", RESNET50, said("resnet50", "backend:", "platform:")),
    Case(
        "backend-missing",
        "a file name without a backend",
        RESNET50,
        said("resnet50", 'backend: "onnxruntime"', 'default_model_filename: "weights.bin"'),
    ),
    Case("tensors-missing", "no output", DIALOGUE, edited("dialogue", lambda it: it.ClearField("output"))),
    Case("tensor-name", "an output without a name", RESNET50, said("resnet50", '"best"', '""')),
    Case("tensor-twice", "two outputs of one name", RESNET50, said("resnet50", '"best"', '"scores"')),
    Case("tensor-twice", "an output of a plan again", BERT, listing_twice("bert", "output")),
    Case("tensor-twice", "two inputs that are warmed up", RESNET50, listing_twice("resnet50", "input")),
    Case(
        "tensor-tensorrt",
        "a shape tensor of an ensemble",
        MINILM,
        edited("minilm", lambda it: setattr(it.input[0], "is_shape_tensor", True)),
    ),
    Case(
        "batch-tensors", "of an unknown input", RESNET50, said("resnet50", 'input: "image"', 'input: "text"')
    ),
    Case("batch-tensors", "an unknown kind", RESNET50, said("resnet50", "BATCH_ITEM_SHAPE", "9")),
    Case(
        "batch-tensors",
        "an output of the kind 9",
        RESNET50,
        edited(
            "resnet50", lambda it: it.batch_output.add(kind=9, target_name=["scores"], source_input=["image"])
        ),
    ),
)

SCHEDULING = (Case("control-input", "two of one name", DIALOGUE, said("dialogue", '"id"', '"start"')),)

INSTANCES_AND_WARM_UP = (
    Case(
        "instance-gpu",
        "the second on a multi-model endpoint",
        RESNET50,
        said("resnet50", "gpus: [ 0 ]", "gpus: [ 1 ]"),
    ),
    Case(
        "instance-gpu",
        "the second of one GPU",
        RESNET50.on(Server(endpoint="single-model", instance_type="ml.g5.2xlarge")),
        said("resnet50", "gpus: [ 0 ]", "gpus: [ 0, 1 ]"),
    ),
    Case("instance-gpu", "the first of none", RESNET50, elsewhere={"instance_type": "ml.c7i.2xlarge"}),
    Case(
        "instance-gpu",
        "KIND_GPU without one",
        RESNET50,
        said("resnet50", "gpus: [ 0 ]", ""),
        elsewhere={"instance_type": "ml.c7i.2xlarge"},
    ),
    Case("warm-up", "two inputs of one name", RESNET50.on(OWN_SERVER), listing_twice("resnet50", "input")),
)

BF16_SCORES = '"scores" data_type: TYPE_FP32', '"scores" data_type: TYPE_BF16'

PARAMETERS = (
    Case("plan-type", "one that no plan has", BERT, said("bert", "TYPE_FP32", "TYPE_FP64")),
    Case("bf16-tensor", "before 26.03", RESNET50, said("resnet50", *BF16_SCORES)),
    Case("onnxruntime-parameter", "no number", RESNET50, said("resnet50", '"4"', '"four"')),
    Case("accelerator", "an unknown one", RESNET50, said("resnet50", '"tensorrt"', '"tensort"')),
    Case("accelerator", "CUDA's, before the backend had it", ROWS_ON_CUDA, elsewhere={"release": "24.05"}),
    Case("python-parameter", "a capital letter", MINILM, said("minilm_pooling", '"no"', '"No"')),
    Case(
        "python-file",
        "another ending",
        MINILM,
        both(
            said("minilm_pooling", '"model.py"', '"model.bin"'),
            moved("minilm_pooling/1/model.py", "minilm_pooling/1/model.bin"),
        ),
    ),
    Case("backend-unknown", "a misspelled one", MINILM, said("minilm_pooling", '"python"', '"Python"')),
    Case("backend-unknown", "one of another image", MINILM, said("minilm_pooling", '"python"', '"vllm"')),
    Case(
        "backend-unknown",
        "a misspelled one on a server of one's own",
        REPOSITORY,
        said("minilm_pooling", '"python"', '"pyton"'),
    ),
    Case("backend-unknown", "TensorRT without a GPU", BERT, elsewhere={"instance_type": "ml.c7i.2xlarge"}),
    Case(
        "backend-unknown",
        "with a library that is not there",
        RESNET50,
        both(
            said("resnet50", 'backend: "onnxruntime"', 'backend: "mine"'),
            said("resnet50", "libtriton_onnxruntime", "libmine"),
        ),
    ),
    Case("runtime", "an unknown library", RESNET50, said("resnet50", "libtriton_", "lib")),
    Case(
        "python-name",
        "a group with brackets",
        MINILM,
        said("minilm_pooling", "count: 1", 'count: 1 name: "[0]"'),
    ),
    Case("python-name", "a group with a question mark", READER, elsewhere={"release": "25.09"}),
    Case(
        "python-name",
        "a step with an exclamation mark",
        MINILM,
        both(
            moved("minilm_pooling", "minilm_pooling!"),
            both(
                said("minilm_pooling!", 'name: "minilm_pooling"', 'name: "minilm_pooling!"'),
                stepped(2, lambda it: setattr(it, "model_name", "minilm_pooling!")),
            ),
        ),
    ),
    Case("pytorch-output", "none", REPOSITORY, edited("ranker", lambda it: it.ClearField("output"))),
    Case("repository-agent", "one that no image has", RESNET50, said("resnet50", '"checksum"', '"vault"')),
    Case("repository-agent", "one without a name", RESNET50, said("resnet50", '"checksum"', '""')),
    Case("model-metrics", "no buckets", RESNET50, said("resnet50", "10, 100", "")),
)

FORESTS = (
    Case("fil-parameter", "an unknown format", FOREST, said("forest", "xgboost_json", "xgboost_text")),
    Case("fil-parameter", "a switch in capitals", FOREST, said("forest", '"true"', '"True"')),
    Case(
        "fil-parameter",
        "the name of newer releases alone",
        FOREST,
        said("forest", "output_class", "is_classifier"),
        elsewhere={"release": "25.04"},
    ),
    Case("fil-parameter", "no threshold", FOREST, said("forest", '"threshold"', '"limit"')),
    Case("fil-tensor", "another name", FOREST, said("forest", "input__0", "FEATURES")),
    Case(
        "fil-tensor",
        "another type",
        FOREST,
        edited("forest", lambda it: setattr(it.output[0], "data_type", 12)),
    ),
    Case(
        "fil-xgboost",
        "a file of XGBoost 3.1",
        FOREST,
        written("forest/1/xgboost.json", b'{"learner":{"gradient_booster":{"cats":{"enc":[]}}}}'),
    ),
    Case(
        "fil-xgboost",
        "UBJSON for an old Treelite",
        FOREST.on(Server(release="24.09")),
        both(
            said("forest", "xgboost_json", "xgboost_ubj"),
            moved("forest/1/xgboost.json", "forest/1/xgboost.ubj"),
        ),
        elsewhere={"release": "24.05"},
    ),
    Case("fil-checkpoint", "another file", CHECKPOINT, written(CHECKPOINT_FILE, b"{}")),
    Case("fil-checkpoint", "cut off", CHECKPOINT, written(CHECKPOINT_FILE, checkpoint_file()[:60])),
    Case(
        "fil-checkpoint", "a format to come", CHECKPOINT, written(CHECKPOINT_FILE, checkpoint_file(version=5))
    ),
    Case("fil-checkpoint", "two targets", CHECKPOINT, written(CHECKPOINT_FILE, checkpoint_file(targets=2))),
    Case("fil-checkpoint", "too new for a release", CHECKPOINT, elsewhere={"release": "24.01"}),
    Case(
        "fil-gpu",
        "base scores that differ",
        CHECKPOINT,
        written(CHECKPOINT_FILE, checkpoint_file(base_scores=(1.0, -0.5, -0.5))),
    ),
    Case(
        "fil-gpu",
        "parallel trees",
        CHECKPOINT.on(Server(release="26.06")),
        written(CHECKPOINT_FILE, checkpoint_file(class_ids=(0, 0, 1, 1, 2, 2))),
    ),
    Case(
        "fil-gpu",
        "counts on an old release",
        FOREST,
        written("forest/1/xgboost.json", b'{"learner":{"objective":{"name":"count:poisson"}}}'),
        elsewhere={"release": "25.04"},
    ),
    Case(
        "fil-pool",
        "more than the pool",
        CHECKPOINT,
        both(
            written(CHECKPOINT_FILE, checkpoint_file() + bytes(1 << 20)),
            edited("forest", lambda it: it.instance_group.add(count=4100)),
        ),
    ),
)

RELEASE_AND_GPU = (
    Case("backend-removed", "TensorFlow in 25.09", GRAPH, elsewhere={"release": "25.09"}),
    Case(
        "label-outside",
        "outside of all models",
        RESNET50.on(Server(release="26.05")),
        said("resnet50", '"labels.txt"', '"/labels.txt"'),
    ),
    Case(
        "label-outside",
        "above the model, and not there",
        RESNET50.on(Server(release="26.05")),
        said("resnet50", '"labels.txt"', '"../labels.txt"'),
    ),
    Case("plan-version", "another TensorRT", BERT, elsewhere={"release": "25.04"}),
    Case("plan-gpu", "another GPU", BERT, elsewhere={"gpu": "L4"}),
    # With a build.json it would also be a plan of another GPU, or of an older TensorRT.
    Case("gpu-removed", "a V100 in 25.09", REPOSITORY, elsewhere={"gpu": "V100"}),
    Case("plan-int64", "in TensorRT 8", OLD_BERT, said("bert", "TYPE_INT32", "TYPE_INT64")),
    Case("unknown-release", "25.99", RESNET50, elsewhere={"release": "25.99"}),
    Case("unknown-gpu", "A11", RESNET50, elsewhere={"gpu": "A11"}),
    Case("unknown-endpoint", "multimodel", RESNET50, elsewhere={"endpoint": "multimodel"}),
)

ENSEMBLES = (
    Case("step-version", "one that is not there", MINILM, said("minilm", "version: -1", "version: 2")),
    Case("ensemble-cycle", "two that run each other", REPOSITORY, ensembles_in_a_circle),
    Case("decoupled-inputs", "of two streams", STREAMING, streaming("minilm_encoder")),
    Case(
        "step-tensor",
        "an input beyond those that a plan lists",
        REPOSITORY,
        stepped(1, lambda it: it.input_map.update(words="ids")),
    ),
)

ENVIRONMENTS_AND_SHARED_MEMORY = (
    Case(
        "environment-outside",
        "two folders up",
        MINILM,
        said("minilm_pooling", "DIRECTORY/environment", "DIRECTORY/../../environment"),
    ),
    Case("environment-files", "no interpreter", MINILM, without(f"{ENVIRONMENT}/bin/python3")),
    Case("environment-files", "nothing that activates it", MINILM, without(f"{ENVIRONMENT}/bin/activate")),
    Case(
        "environment-python",
        "that of older releases",
        MINILM,
        moved(f"{ENVIRONMENT}/lib/python3.12", f"{ENVIRONMENT}/lib/python3.10"),
    ),
    Case(
        "environment-numpy",
        "none",
        MINILM,
        both(without(f"{PACKAGES}/numpy"), without(f"{PACKAGES}/numpy-2.2.6.dist-info")),
    ),
    Case("packed-environment", "that of older releases", PACKED, packed(python="3.10")),
    Case("archive-damaged", "an environment that is an empty file", PACKED, written(f"{ENVIRONMENT}.tar.gz")),
    *(
        Case(
            "environment-wheel",
            f"one for {python} on {platform}",
            MINILM,
            tagged(f"{python}-{python}-{platform}"),
        )
        for python, platform in (
            ("cp312", "macosx_11_0_arm64"),
            ("cp312", "manylinux_2_17_aarch64"),
            ("cp311", "manylinux_2_17_x86_64"),
        )
    ),
    Case(
        "python-shared-memory",
        "64 instances and one",
        MINILM,
        said("minilm_tokenizer", "count: 1", "count: 64"),
    ),
    Case(
        "python-shared-memory",
        "a batch that is too large",
        MINILM,
        edited("minilm_pooling", lambda config: setattr(config, "max_batch_size", 1 << 16)),
    ),
)

NETWORKS_AND_CODE = (
    Case("onnx-version", "an IR version to come", ROWS, written(ROWS_FILE, onnx_file(ir_version=12))),
    Case("onnx-version", "an opset to come", ROWS, written(ROWS_FILE, onnx_file(opset=24))),
    Case("onnx-version", "an old ONNX Runtime", ROWS_OF_IR_10, elsewhere={"release": "24.03"}),
    Case("onnx-tensor", "an input of another name", ROWS, written(ROWS_FILE, onnx_file(source="z"))),
    Case("onnx-tensor", "another size", ROWS, written(ROWS_FILE, onnx_file(size=5))),
    Case("onnx-tensor", "another type", ROWS, said("rows", "TYPE_FP32", "TYPE_FP16")),
    Case("onnx-tensor", "no batch dimension", ROWS, said("rows", "max_batch_size: 8", "max_batch_size: 0")),
    Case("onnx-tensor", "another size, packed", PACKED_ROWS, packed_rows_of_another_size),
    Case(
        "torchscript-tensor",
        "an argument more",
        ROWS,
        written("script/1/model.pt", script_file("def forward(self: Net, x: Tensor, m: Tensor) -> Tensor")),
    ),
    Case(
        "torchscript-tensor",
        "an output too many",
        ROWS,
        edited("script", lambda it: it.output.add(name="Y__1", data_type="TYPE_FP32", dims=[4])),
    ),
    Case(
        "openvino-kind", "on a GPU", INTEL, edited("net", lambda it: it.instance_group.add(kind="KIND_GPU"))
    ),
    Case("openvino-batches", "batches", INTEL, edited("net", lambda it: setattr(it, "max_batch_size", 4))),
    Case(
        "openvino-type",
        "a type of other backends",
        INTEL,
        edited("net", lambda it: setattr(it.input[0], "data_type", 12)),
    ),
    Case("aoti-release", "a release that is too old", COMPILED, elsewhere={"release": "25.12"}),
    Case("aoti-batches", "batches", COMPILED, edited("net", lambda it: setattr(it, "max_batch_size", 4))),
    Case("aoti-batches", "sequences", COMPILED, edited("net", lambda it: it.sequence_batching.SetInParent())),
    Case("aoti-target", "another GPU", COMPILED, elsewhere={"gpu": "L4"}),
    Case("aoti-target", "no GPU", COMPILED, elsewhere={"gpu": None, "instance_type": "ml.c6i.xlarge"}),
    Case("aoti-target", "a CPU's on a GPU", COMPILED, written("net/1/model.pt2", compiled_file("cpu"))),
    Case(
        "python-import", "a package that nothing has", ROWS, written("code/1/model.py", b"import torch.nn\n")
    ),
    Case("python-import", "within a function", ROWS, written("code/1/model.py", b"def f():\n  import cv2\n")),
)


def run_by(number: int, name: str) -> Spoil:
    """A step of the ensemble `minilm` runs another model."""
    return stepped(number, lambda step: setattr(step, "model_name", name))


def with_parameter(name: str, value: str) -> Spoil:
    """A parameter has another value."""
    return edited("resnet50", lambda it: setattr(it.parameters[name], "string_value", value))


def without_warm_up(root: Path) -> None:
    """Nothing is said about the input again."""
    with Edit(root / "resnet50") as config:
        config.ClearField("model_warmup")


PLAIN = Correct("plain", write_plain, Server(release=None, gpu=None))
ENSEMBLE = Correct("ensemble", write_ensemble, Server(release=None, gpu=None))
NEWER = RESNET50.on(Server(release="26.05"))


OF_SMALL_MODELS = tuple(
    Case(check, f"of a small model, {name}", correct, spoil)
    for correct, table in ((PLAIN, broken_models.PLAIN), (ENSEMBLE, broken_models.ENSEMBLE))
    for check, broken in table.items()
    for name, spoil in broken.items()
)

# Of these the text is another than of those above.
IN_OTHER_WORDS = (
    *(
        Case(
            "backend-missing",
            f"the platform {name}",
            RESNET50,
            said("resnet50", 'backend: "onnxruntime"', f'platform: "{name}"'),
        )
        for name in ("keras", "onnx", "tensorrt_plna")
    ),
    Case(
        "tensor-format",
        "one dim",
        RESNET50,
        both(
            said(
                "resnet50", "format: FORMAT_NCHW dims: [ 3, 224, 224 ]", "format: FORMAT_NHWC dims: [ 224 ]"
            ),
            without_warm_up,
        ),
    ),
    Case(
        "tensor-format",
        "a memory layout of two dims",
        BERT,
        edited("bert", lambda it: setattr(it.output[0], "is_non_linear_format_io", True)),
    ),
    *(
        Case(
            "control-values",
            f"the values {values!r}",
            DIALOGUE,
            said("dialogue", "fp32_false_true: [ 0, 1 ]", values),
        )
        for values in (
            "int32_false_true: [ 0, 1, 2 ]",
            "int32_false_true: [ 0, 1 ] fp32_false_true: [ 0, 1 ]",
        )
    ),
    *(
        Case("onnxruntime-parameter", f"{name} is {value}", RESNET50, with_parameter(name, value))
        for name, value in (("execution_mode", "parallel"), ("enable_mem_arena", "yes"))
    ),
    Case(
        "step-model",
        "another step's model",
        MINILM,
        both(run_by(1, "minilm_tokeniser"), without("minilm_encoder")),
    ),
    Case("step-model", "a name with a letter missing", MINILM, run_by(1, "minilm_encodr")),
    *(
        Case("version-missing", f"the folder {name}", DIALOGUE, moved("dialogue/1", f"dialogue/{name}"))
        for name in ("007", "00")
    ),
    Case("label-outside", "far above", NEWER, said("resnet50", '"labels.txt"', '"../../labels.txt"')),
)

CASES = (
    *FILES,
    *OF_SMALL_MODELS,
    *IN_OTHER_WORDS,
    *NETWORKS_AND_CODE,
    *SAGEMAKER,
    *CONFIGURATION,
    *SCHEDULING,
    *INSTANCES_AND_WARM_UP,
    *PARAMETERS,
    *FORESTS,
    *RELEASE_AND_GPU,
    *ENSEMBLES,
    *ENVIRONMENTS_AND_SHARED_MEMORY,
)
