"""Every rule of `fleet check`: what keeps it, and what breaks it and no other rule.

A case is a correct artifact, which has what the rule is about in its right form, and the one thing that makes
it wrong: a change in it, or another server.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.triton_models.model_folders import Edit, tar, write, write_ensemble
from tests.triton_models.test_check_target import plan, write_plan
from tests.triton_models.test_environment_rules import OWN, write_environment, write_tag
from triton_models.check import check_path
from triton_models.config import ensemble, step, tensor, write_config
from triton_models.errors import FleetError, Problem
from triton_models.merge import merge
from triton_models.target import target

Spoil = Callable[[Path], Path | None]
"""Makes an artifact wrong; returns where the wrong one is, unless it is where the correct one was."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """What an artifact is checked for; without an endpoint it is a server of one's own.

    Without a release or a GPU it is checked for the one that it was built for.
    """

    release: str | None = "25.09"
    gpu: str | None = "A10G"
    endpoint: str | None = "multi-model"

    def problems(self, path: Path) -> list[Problem]:
        """What `fleet check` says about an artifact."""
        try:
            wanted = target(release=self.release, gpu=self.gpu, endpoint=self.endpoint)
        except FleetError as error:
            return list(error.problems)
        return check_path(path, target=wanted)


@dataclass(frozen=True)
class Correct:
    """An artifact that breaks no rule on a server."""

    name: str
    write: Callable[[Path], None]
    server: Server = field(default_factory=Server)

    def on(self, server: Server) -> Correct:
        """The same for another server, on which it is correct as well."""
        return replace(self, server=server)

    def __str__(self) -> str:
        return f"{self.name}, {self.server.release}, {self.server.endpoint or 'a server of its own'}"


@dataclass(frozen=True)
class Case:
    """A rule, and how it is broken.

    Attributes:
        rule: Its id.
        wrong: What is wrong, in a few words.
        correct: What keeps the rule.
        spoil: What breaks it.
        elsewhere: What is different about the server that breaks it.
    """

    rule: str
    wrong: str
    correct: Correct
    spoil: Spoil = lambda root: None
    elsewhere: Mapping[str, str | None] = field(default_factory=dict)

    def problems(self, root: Path) -> list[Problem]:
        """What `fleet check` says about the correct artifact once it is spoilt."""
        path = self.spoil(root) or root
        return replace(self.correct.server, **self.elsewhere).problems(path)

    def __str__(self) -> str:
        return f"{self.rule}: {self.wrong}"


# What is correct: their configurations, then the artifacts. No file holds real weights.

TENSORRT = "10.13.3.9"  # of release 25.09

_RESNET50 = """\
name: "resnet50"
backend: "onnxruntime"
runtime: "libtriton_onnxruntime.so"
max_batch_size: 8
input { name: "image" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, 224, 224 ] }
input { name: "mean" data_type: TYPE_FP16 dims: [ 3 ] reshape { shape: [ 3, 1, 1 ] } optional: true }
output { name: "scores" data_type: TYPE_FP32 dims: [ 1000 ] label_filename: "labels.txt" }
output { name: "best" data_type: TYPE_INT64 dims: [ 5 ] }
batch_input { kind: BATCH_ITEM_SHAPE target_name: "sizes" data_type: TYPE_FP32 source_input: "image" }
dynamic_batching {
  preferred_batch_size: [ 4, 8 ]
  priority_levels: 2
  default_priority_level: 1
  preserve_ordering: false
}
instance_group { count: 2 kind: KIND_GPU gpus: [ 0 ] }
response_cache { enable: true }
model_warmup {
  name: "zeros"
  batch_size: 8
  inputs { key: "image" value { data_type: TYPE_FP32 dims: [ 3, 224, 224 ] zero_data: true } }
}
optimization {
  execution_accelerators {
    gpu_execution_accelerator { name: "tensorrt" parameters { key: "precision_mode" value: "FP16" } }
  }
}
parameters { key: "intra_op_thread_count" value { string_value: "4" } }
metric_tags { key: "cost_center" value: "7" }
model_metrics {
  metric_control {
    metric_identifier { family: "nv_inference_first_response_histogram_ms" }
    histogram_options { buckets: [ 10, 100 ] }
  }
}
model_repository_agents { agents { name: "checksum" } }
"""

_DIALOGUE = """\
name: "dialogue"
backend: "onnxruntime"
max_batch_size: 4
input { name: "word" data_type: TYPE_INT64 dims: [ 1 ] }
output { name: "answer" data_type: TYPE_INT64 dims: [ 1 ] }
sequence_batching {
  direct { minimum_slot_utilization: 0.5 }
  control_input { name: "start" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } }
  control_input { name: "id" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }
  state {
    input_name: "memory"
    output_name: "new_memory"
    data_type: TYPE_FP32
    dims: [ 2 ]
    initial_state { name: "empty" data_type: TYPE_FP32 dims: [ 2 ] zero_data: true }
  }
}
response_cache { enable: false }
"""

_RANKER = """\
name: "ranker"
platform: "pytorch_libtorch"
max_batch_size: 8
input { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 384 ] }
output { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 1 ] }
dynamic_batching { }
parameters { key: "TRITON_BATCH_STRATEGY_PATH" value { string_value: "/opt/batching.so" } }
"""

_GRAPH = """\
name: "graph"
platform: "tensorflow_graphdef"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }
"""


def write_resnet50(root: Path) -> None:
    """A model of ONNX Runtime that says whatever such a model can."""
    write(root / "resnet50/config.pbtxt", _RESNET50.encode())
    write(root / "resnet50/1/model.onnx", b"weights")
    write(root / "resnet50/1/labels.txt", b"cat\ndog\n")
    (root / "resnet50/labels.txt").symlink_to("1/labels.txt")


def write_packed_resnet50(archive: Path) -> None:
    """The same as an archive, from a folder beside it."""
    write_resnet50(_unpacked(archive))
    tar(_unpacked(archive), archive)


def _unpacked(archive: Path) -> Path:
    return archive.with_name("resnet50")


def write_dialogue(root: Path) -> None:
    """A model of sequences, with a state that it keeps between requests."""
    write(root / "dialogue/config.pbtxt", _DIALOGUE.encode())
    write(root / "dialogue/1/model.onnx", b"weights")


def write_graph(root: Path) -> None:
    """A model of TensorFlow."""
    write(root / "graph/config.pbtxt", _GRAPH.encode())
    write(root / "graph/1/model.graphdef", b"weights")


def write_bert(root: Path) -> None:
    """A plan, with a tensor of a kind that only plans have."""
    write_plan(root, tensorrt=TENSORRT, record={"release": "25.09", "gpu": "A10G"})
    with Edit(root / "bert") as config:
        config.input.add(name="length", data_type="TYPE_INT32", dims=[1], is_shape_tensor=True)


def write_old_bert(root: Path) -> None:
    """A plan of TensorRT 8."""
    write_plan(root, tensorrt="8.6.1.6", record={"release": "24.01", "gpu": "A10G"})


def write_merged_bert(root: Path) -> None:
    """A plan for each of two GPU models."""
    record = {"model": root.name, "release": "25.09"}
    built = [
        write_plan(
            root.parent / gpu / root.name,
            tensorrt=TENSORRT,
            record={**record, "gpu": gpu, "plans": {"bert/1/model.plan": {"gpu": gpu}}},
        )
        for gpu in ("A10G", "L4")
    ]
    merge(built, output=root.parent)


def write_minilm(root: Path) -> None:
    """An ensemble of Python, a plan and Python, of which the last has an environment."""
    write_ensemble(root, gpu="A10G")
    with Edit(root / "minilm_tokenizer") as config:
        config.output.add(name="token_type_ids", data_type="TYPE_INT32", dims=[-1])
    with Edit(root / "minilm_encoder") as config:
        config.instance_group[0].profile.append("0")
    write(root / "minilm_encoder/1/model.plan", plan(TENSORRT))
    with Edit(root / "minilm_pooling") as config:
        config.default_model_filename = "model.py"
        config.parameters["FORCE_CPU_ONLY_INPUT_TENSORS"].string_value = "no"
        config.parameters["EXECUTION_ENV_PATH"].string_value = OWN
    write_environment(root / "minilm_pooling/environment")


def write_streaming_minilm(root: Path) -> None:
    """The same, whose last step may answer a request more than once."""
    write_minilm(root)
    streaming("minilm_pooling")(root)


def write_repository(root: Path) -> None:
    """Models for a server of one's own: an ensemble, another one that runs it, and one of TorchScript."""
    write_minilm(root)
    (root / "build.json").unlink()
    write_ensemble_around("minilm", root / "search")
    write(root / "ranker/config.pbtxt", _RANKER.encode())
    write(root / "ranker/1/model.pt", b"weights")


def write_ensemble_around(name: str, folder: Path) -> None:
    """An ensemble of one step, another ensemble."""
    text, vector = tensor("TEXT", "STRING", [1]), tensor("embedding", "FP32", [384])
    only = step(name, inputs={"TEXT": "TEXT"}, outputs={"embedding": "embedding"})
    config = ensemble(name=folder.name, max_batch_size=16, inputs=[text], outputs=[vector], steps=[only])
    write_config(config, folder / "config.pbtxt")
    write(folder / "1/.keep", b"")


SINGLE_MODEL = Server(endpoint="single-model")
OWN_SERVER = Server(endpoint=None)

RESNET50 = Correct("resnet50", write_resnet50)
PACKED_RESNET50 = Correct("resnet50.tar.gz", write_packed_resnet50)
DIALOGUE = Correct("dialogue", write_dialogue)
BERT = Correct("bert", write_bert)
OLD_BERT = Correct("bert-8", write_old_bert, Server(release="24.01"))
MERGED_BERT = Correct("bert-merged", write_merged_bert)
GRAPH = Correct("graph", write_graph, Server(release="24.09"))
MINILM = Correct("minilm", write_minilm)
STREAMING = Correct("minilm-streaming", write_streaming_minilm, SINGLE_MODEL)
REPOSITORY = Correct("repository", write_repository, OWN_SERVER)


# What makes it wrong


def said(model: str, right: str, wrong: str) -> Spoil:
    """Its configuration says something else."""

    def spoil(root: Path) -> None:
        path = root / model / "config.pbtxt"
        text = path.read_text()
        assert right in text
        path.write_text(text.replace(right, wrong))

    return spoil


def edited(model: str, edit: Callable[[Any], object]) -> Spoil:
    """The same for what is not to be found by its text."""

    def spoil(root: Path) -> None:
        with Edit(root / model) as config:
            edit(config)

    return spoil


def stepped(number: int, edit: Callable[[Any], object]) -> Spoil:
    """The same in a step of the ensemble `minilm`."""
    return edited("minilm", lambda config: edit(config.ensemble_scheduling.step[number]))


def written(path: str, content: bytes = b"") -> Spoil:
    """A file is there, or has another content."""
    return lambda root: write(root / path, content)


def without(path: str) -> Spoil:
    """A file or folder is missing."""

    def spoil(root: Path) -> None:
        found = root / path
        if found.is_dir():
            shutil.rmtree(found)
        else:
            found.unlink()

    return spoil


def moved(path: str, to: str) -> Spoil:
    """A file or folder is somewhere else."""

    def spoil(root: Path) -> None:
        (root / to).parent.mkdir(exist_ok=True)
        (root / path).rename(root / to)

    return spoil


def copied(path: str, to: str) -> Spoil:
    """A folder is there twice."""

    def spoil(root: Path) -> None:
        shutil.copytree(root / path, root / to)

    return spoil


def renamed(name: str) -> Spoil:
    """The artifact itself has another name."""
    return lambda root: root.rename(root.with_name(name))


def both(one: Spoil, other: Spoil) -> Spoil:
    """Two that are wrong only together."""

    def spoil(root: Path) -> None:
        one(root)
        other(root)

    return spoil


def streaming(model: str) -> Spoil:
    """A model may answer a request more than once."""
    return edited(model, lambda it: setattr(it.model_transaction_policy, "decoupled", True))


def built_for(**record: object) -> Spoil:
    """What it was built for is said otherwise."""

    def spoil(root: Path) -> None:
        path = root / "build.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **record}))

    return spoil


def listing_twice(model: str, part: str) -> Spoil:
    """The first input or output of a model is listed again."""
    return edited(model, lambda it: getattr(it, part).append(getattr(it, part)[0]))


def linked(path: str, target: str) -> Spoil:
    """A link is there."""
    return lambda root: (root / path).symlink_to(target)


def with_a_pipe(root: Path) -> None:
    """Something that has no content is there."""
    os.mkfifo(root / "resnet50/pipe")


def with_a_name_of_bytes(root: Path) -> None:
    """A file's name is not UTF-8."""
    Path(os.fsdecode(os.fsencode(root / "resnet50") + b"/\xff")).write_bytes(b"")


def with_a_link_outside(root: Path) -> None:
    """A link leads to what is not part of the model."""
    (root / "resnet50/shared").symlink_to("/usr")


def packed_with_a_link_outside(archive: Path) -> None:
    """The same in an archive."""
    with_a_link_outside(_unpacked(archive))
    tar(_unpacked(archive), archive)


def packed_without_its_folder(archive: Path) -> None:
    """The model directory is the top of an archive."""
    tar(_unpacked(archive) / "resnet50", archive)


def cut_short(archive: Path) -> None:
    """The end of an archive is missing."""
    archive.write_bytes(archive.read_bytes()[:-4])


def tagged(tag: str) -> Spoil:
    """NumPy in the environment is of another platform or Python."""
    return lambda root: write_tag(root / _PACKAGES / "numpy-2.2.6.dist-info", tag)


def ensembles_in_a_circle(root: Path) -> None:
    """The ensemble that another one runs runs that one."""
    write_ensemble_around("search", root / "minilm")


_ENVIRONMENT = "minilm_pooling/environment"
_PACKAGES = f"{_ENVIRONMENT}/lib/python3.12/site-packages"
_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 102442450\n"


# The rules, in the order of the modules in `triton_models.rules`; what has no rule is told in the same way.

FILES = (
    Case("no-model", "an empty folder", RESNET50, without("resnet50")),
    Case("too-deep", "a folder around the model", RESNET50, moved("resnet50", "models/resnet50")),
    Case("config-missing", "no config.pbtxt", RESNET50, without("resnet50/config.pbtxt")),
    Case("config-syntax", "an unknown field", RESNET50, said("resnet50", "max_batch_size", "max_batch")),
    Case("build-record", "a list", BERT, written("build.json", b"[]")),
    Case("build-record", "an unknown release", BERT, built_for(release="25.99"), elsewhere={"release": None}),
    Case("build-record", "an unknown GPU", BERT, built_for(gpu="A11"), elsewhere={"gpu": None}),
    Case("version-missing", "a zero in front", MINILM, moved("minilm/1", "minilm/01")),
    Case("version-missing", "no folder", DIALOGUE, without("dialogue/1")),
    Case(
        "version-missing",
        "one that the policy leaves out",
        RESNET50,
        edited("resnet50", lambda it: it.version_policy.specific.versions.append(2)),
    ),
    Case("version-number", "a number of 64 bits", RESNET50, written(f"resnet50/{2**63}/model.onnx")),
    Case(
        "model-file-missing",
        "a file of another name",
        RESNET50,
        moved("resnet50/1/model.onnx", "resnet50/1/resnet50.onnx"),
    ),
    Case("label-file", "no such file", RESNET50, said("resnet50", '"labels.txt"', '"names.txt"')),
    Case("label-file", "none beside it", RESNET50, said("resnet50", '"labels.txt"', '"../labels.txt"')),
    Case(
        "lfs-pointer", "weights that are still in Git", RESNET50, written("resnet50/1/model.onnx", _POINTER)
    ),
    Case("unreadable", "an archive without its end", PACKED_RESNET50, cut_short),
    Case("unreadable", "nothing there", RESNET50, without(".")),
    Case("unpackable", "a link that leads outside", RESNET50, with_a_link_outside),
    Case("unpackable", "a link to nothing", RESNET50, linked("resnet50/shared", "nowhere")),
    Case("unpackable", "a link to its own folder", RESNET50, linked("resnet50/shared", ".")),
    Case("unpackable", "a pipe", RESNET50, with_a_pipe),
    Case("unpackable", "a name that is not UTF-8", RESNET50, with_a_name_of_bytes),
    Case("unsafe-archive", "a link that leads outside", PACKED_RESNET50, packed_with_a_link_outside),
)

SAGEMAKER = (
    Case("model-name", "a space", RESNET50, renamed("resnet 50")),
    Case("several-models", "composing models without their ensemble", MINILM, without("minilm")),
    Case("several-ensembles", "the ensemble twice", MINILM, copied("minilm", "other")),
    Case("stray-directory", "a folder beside a plain model", RESNET50, written("words/en.txt")),
    Case("ensemble-undetected", "single quotes", MINILM, said("minilm", '"ensemble"', "'ensemble'")),
    Case(
        "ensemble-in-comment",
        "a comment in a composing model",
        MINILM,
        said("minilm_pooling", "backend:", '# a step of a platform: "ensemble"\nbackend:'),
    ),
    Case("decoupled", "a step that streams", STREAMING, elsewhere={"endpoint": "multi-model"}),
    Case(
        "composing-cache",
        "a cache of a step's answers",
        MINILM,
        edited("minilm_encoder", lambda it: setattr(it.response_cache, "enable", True)),
    ),
    Case(
        "root-config",
        "packed without its folder",
        PACKED_RESNET50.on(SINGLE_MODEL),
        packed_without_its_folder,
    ),
)

CONFIGURATION = (
    Case("composing-name", "not the folder's", MINILM, said("minilm_encoder", '"minilm_encoder"', '"bert"')),
    Case("backend-missing", "an unknown platform", RESNET50, said("resnet50", "backend:", "platform:")),
    Case(
        "backend-missing",
        "a file's name that tells none",
        RESNET50,
        said("resnet50", 'backend: "onnxruntime"', 'default_model_filename: "weights.bin"'),
    ),
    Case("max-batch-size", "less than 0", BERT, said("bert", "max_batch_size: 8", "max_batch_size: -8")),
    Case("tensors-missing", "no output", DIALOGUE, edited("dialogue", lambda it: it.ClearField("output"))),
    Case("tensor-name", "an output without a name", RESNET50, said("resnet50", '"best"', '""')),
    Case("tensor-twice", "two outputs of one name", RESNET50, said("resnet50", '"best"', '"scores"')),
    Case("tensor-twice", "two inputs that are warmed up", RESNET50, listing_twice("resnet50", "input")),
    Case("tensor-type", "an output without a type", RESNET50, said("resnet50", "data_type: TYPE_INT64", "")),
    Case("tensor-dims", "a size of 0", RESNET50, said("resnet50", "[ 5 ]", "[ 0 ]")),
    Case("tensor-format", "a flat image", RESNET50, said("resnet50", "[ 3, 224, 224 ]", "[ 3, 50176 ]")),
    Case(
        "tensor-tensorrt",
        "a shape tensor without TensorRT",
        BERT,
        both(said("bert", '"tensorrt"', '"onnxruntime"'), moved("bert/1/model.plan", "bert/1/model.onnx")),
    ),
    Case(
        "tensor-tensorrt",
        "a shape tensor of an ensemble",
        MINILM,
        edited("minilm", lambda it: setattr(it.input[0], "is_shape_tensor", True)),
    ),
    Case("reshape", "to more elements", RESNET50, said("resnet50", "[ 3, 1, 1 ]", "[ 3, 1, 2 ]")),
    Case(
        "batch-tensors", "of an unknown input", RESNET50, said("resnet50", 'input: "image"', 'input: "text"')
    ),
    Case("batch-tensors", "an unknown kind", RESNET50, said("resnet50", "BATCH_ITEM_SHAPE", "9")),
    Case(
        "batch-tensors",
        "an output of an unknown kind",
        RESNET50,
        edited(
            "resnet50",
            lambda it: it.batch_output.add(kind=9, target_name=["scores"], source_input=["image"]),
        ),
    ),
)

SCHEDULING = (
    Case("preferred-batch-size", "above the largest", RESNET50, said("resnet50", "[ 4, 8 ]", "[ 4, 16 ]")),
    Case("priority-levels", "the third of two", RESNET50, said("resnet50", "level: 1", "level: 3")),
    Case(
        "preserve-ordering",
        "with priorities",
        RESNET50,
        said("resnet50", "ordering: false", "ordering: true"),
    ),
    Case("response-cache", "of sequences", DIALOGUE, said("dialogue", "enable: false", "enable: true")),
    Case("slot-utilization", "more than every slot", DIALOGUE, said("dialogue", "0.5", "1.5")),
    Case("control-input", "two of one name", DIALOGUE, said("dialogue", '"id"', '"start"')),
    Case("control-values", "one value of two", DIALOGUE, said("dialogue", "[ 0, 1 ]", "[ 1 ]")),
    Case(
        "state", "one that starts from another shape", DIALOGUE, said("dialogue", "[ 2 ] zero", "[ 3 ] zero")
    ),
    Case("custom-batching", "of sequences", REPOSITORY, said("ranker", "dynamic_", "sequence_")),
)

INSTANCES_AND_WARM_UP = (
    Case("instance-kind", "GPUs of a CPU group", RESNET50, said("resnet50", "KIND_GPU", "KIND_CPU")),
    Case("instance-profile", "no number", MINILM, said("minilm_encoder", 'profile: "0"', 'profile: "fast"')),
    Case("warm-up", "no data", RESNET50, said("resnet50", "zero_data: true", "")),
    Case("warm-up", "two inputs of one name", RESNET50.on(OWN_SERVER), listing_twice("resnet50", "input")),
)

PARAMETERS = (
    Case("plan-type", "one that no plan has", BERT, said("bert", "TYPE_FP32", "TYPE_FP64")),
    Case("onnxruntime-parameter", "no number", RESNET50, said("resnet50", '"4"', '"four"')),
    Case("accelerator", "an unknown one", RESNET50, said("resnet50", '"tensorrt"', '"tensort"')),
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
    Case("runtime", "an unknown library", RESNET50, said("resnet50", "libtriton_", "lib")),
    Case("pytorch-output", "none", REPOSITORY, edited("ranker", lambda it: it.ClearField("output"))),
    Case("repository-agent", "one without a name", RESNET50, said("resnet50", '"checksum"', '""')),
    Case("metric-tag", "a hyphen", RESNET50, said("resnet50", "cost_center", "cost-center")),
    Case("model-metrics", "no buckets", RESNET50, said("resnet50", "10, 100", "")),
)

RELEASE_AND_GPU = (
    Case("backend-removed", "TensorFlow in 25.09", GRAPH, elsewhere={"release": "25.09"}),
    Case("new-field", "model_metrics in 24.09", RESNET50, elsewhere={"release": "24.09"}),
    Case(
        "label-outside",
        "beside all models",
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
    Case("plan-missing", "a third GPU", MERGED_BERT, elsewhere={"gpu": "T4"}),
    # With a build.json it would also be a plan of another GPU, or of an older TensorRT.
    Case("gpu-removed", "a V100 in 25.09", REPOSITORY, elsewhere={"gpu": "V100"}),
    Case("plan-int64", "in TensorRT 8", OLD_BERT, said("bert", "TYPE_INT32", "TYPE_INT64")),
    Case("unknown-release", "25.99", RESNET50, elsewhere={"release": "25.99"}),
    Case("unknown-gpu", "A11", RESNET50, elsewhere={"gpu": "A11"}),
    Case("unknown-endpoint", "multimodel", RESNET50, elsewhere={"endpoint": "multimodel"}),
)

ENSEMBLES = (
    Case("ensemble-fields", "instances", MINILM, edited("minilm", lambda it: it.instance_group.add())),
    Case(
        "step-fields",
        "a step of no model",
        MINILM,
        edited("minilm", lambda it: it.ensemble_scheduling.step.add(input_map={"x": "TEXT"})),
    ),
    Case("step-model", "one that is not there", MINILM, without("minilm_pooling")),
    Case("step-model", "itself", MINILM, stepped(2, lambda it: setattr(it, "model_name", "minilm"))),
    Case("step-version", "one that is not there", MINILM, said("minilm", "version: -1", "version: 2")),
    Case("ensemble-cycle", "two that run each other", REPOSITORY, ensembles_in_a_circle),
    Case("decoupled-inputs", "of two streams", STREAMING, streaming("minilm_encoder")),
    Case("step-tensor", "an unknown input", MINILM, stepped(1, lambda it: it.input_map.update(words="ids"))),
    Case(
        "step-input", "one that is not fed", MINILM, stepped(1, lambda it: it.input_map.pop("attention_mask"))
    ),
    Case("step-batch-size", "below the ensemble's", MINILM, said("minilm_encoder", "size: 16", "size: 8")),
    Case("tensor-type-mismatch", "half the bits", MINILM, said("minilm", "TYPE_FP32", "TYPE_FP16")),
    Case("tensor-shape-mismatch", "twice the size", MINILM, said("minilm", "dims: 384", "dims: 768")),
    Case(
        "tensor-written-twice",
        "by two outputs of a step",
        MINILM,
        stepped(0, lambda it: it.output_map.update(token_type_ids="ids")),
    ),
    Case(
        "tensor-unconnected",
        "an input that no step reads",
        MINILM,
        edited("minilm", lambda it: it.input.add(name="HINT", data_type="TYPE_STRING", dims=[1])),
    ),
)

ENVIRONMENTS_AND_SHARED_MEMORY = (
    Case(
        "environment-outside",
        "two folders up",
        MINILM,
        said("minilm_pooling", "DIRECTORY/environment", "DIRECTORY/../../environment"),
    ),
    Case("environment-files", "no interpreter", MINILM, without(f"{_ENVIRONMENT}/bin/python3")),
    Case(
        "environment-python",
        "that of older releases",
        MINILM,
        moved(f"{_ENVIRONMENT}/lib/python3.12", f"{_ENVIRONMENT}/lib/python3.10"),
    ),
    Case(
        "environment-numpy",
        "none",
        MINILM,
        both(without(f"{_PACKAGES}/numpy"), without(f"{_PACKAGES}/numpy-2.2.6.dist-info")),
    ),
    Case("environment-wheel", "one for macOS", MINILM, tagged("cp312-cp312-macosx_11_0_arm64")),
    Case(
        "python-shared-memory",
        "64 instances and one",
        MINILM,
        said("minilm_pooling", "count: 1", "count: 64"),
    ),
)

CASES = (
    *FILES,
    *SAGEMAKER,
    *CONFIGURATION,
    *SCHEDULING,
    *INSTANCES_AND_WARM_UP,
    *PARAMETERS,
    *RELEASE_AND_GPU,
    *ENSEMBLES,
    *ENVIRONMENTS_AND_SHARED_MEMORY,
)
