"""Artifacts that keep every rule: their configurations, then what writes them."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

from tests.triton_models.check_case import Correct, Server
from tests.triton_models.model_folders import PYTHON_CODE, Edit, tar, write, write_ensemble, write_environment
from tests.triton_models.real_networks import onnx_file, script_archive, write_onnx
from tests.triton_models.spoils import ENVIRONMENT, packed, said, streaming
from tests.triton_models.test_check_target import plan, write_plan
from tests.triton_models.test_environment_rules import OWN
from triton_models.artifact.pbtxt import ensemble, plain, step, tensor, write_config
from triton_models.builds.making import CALLED_MODELS

# The names of features may be those of keys.
XGBOOST = (
    b'{"learner":{"feature_names":["cats","num_cats","wildcats_score"],"gradient_booster":{"model":{"trees":[]}},'
    b'"objective":{"name":"%s"}},"version":[3,0,5]}'
)
ROWS_FILE = "rows/1/model.onnx"
CHECKPOINT_FILE = "forest/1/checkpoint.tl"

TENSORRT = "10.13.3.9"  # of release 25.09

_RESNET50 = """\
name: "resnet50"
backend: "onnxruntime"
runtime: "libtriton_onnxruntime.so"
max_batch_size: 8
input { name: "image" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, 224, 224 ] }
input { name: "mean" data_type: TYPE_FP16 dims: [ 3 ] reshape { shape: [ 3, 1, 1 ] } }
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
  inputs { key: "mean" value { data_type: TYPE_FP16 dims: [ 3 ] zero_data: true } }
}
optimization {
  execution_accelerators {
    gpu_execution_accelerator { name: "cuda" parameters { key: "gpu_mem_limit" value: "1073741824" } }
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

_IMPORTS = b"import json\nimport numpy\nimport sibling\nfrom package import part\n"
_CALLER = b"""\
import triton_python_backend_utils as pb_utils
from called_models import CalledModels


class TritonPythonModel:
    def initialize(self, args):
        self.models = CalledModels(args)

    def execute(self, requests):
        name = self.models.name("judge")
        return [pb_utils.InferenceRequest(model_name=name).exec()]

    def finalize(self):
        self.models.unload()
"""

_GRAPH = """\
name: "graph"
platform: "tensorflow_graphdef"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }
"""

_FOREST = """\
backend: "fil"
max_batch_size: 4096
input { name: "input__0" data_type: TYPE_FP32 dims: [ 5 ] }
output { name: "output__0" data_type: TYPE_FP32 dims: [ 2 ] }
parameters { key: "model_type" value: { string_value: "xgboost_json" } }
parameters { key: "predict_proba" value: { string_value: "true" } }
parameters { key: "output_class" value: { string_value: "true" } }
parameters { key: "threshold" value: { string_value: "0.5" } }
"""


def write_resnet50(root: Path) -> None:
    """A model of ONNX Runtime that says whatever such a model can."""
    write(root / "resnet50/config.pbtxt", _RESNET50.encode())
    write_onnx(root / "resnet50")
    write(root / "resnet50/1/labels.txt", b"cat\ndog\n")
    (root / "resnet50/labels.txt").symlink_to("1/labels.txt")


def write_packed_resnet50(archive: Path) -> None:
    write_resnet50(unpacked(archive))
    tar(unpacked(archive), archive)


def unpacked(archive: Path) -> Path:
    return archive.with_name("resnet50")


def write_dialogue(root: Path) -> None:
    write(root / "dialogue/config.pbtxt", _DIALOGUE.encode())
    write_onnx(root / "dialogue")


def write_rows(root: Path) -> None:
    """An ONNX network, a TorchScript file and a Python model, whose files say what they are."""
    for name, backend, x, y in (
        ("rows", "onnxruntime", "x", "y"),
        ("script", "pytorch", "X__0", "Y__0"),
        ("code", "python", "x", "y"),
    ):
        inputs, outputs = [tensor(x, "FP32", [4])], [tensor(y, "FP32", [4])]
        made = plain(name=name, backend=backend, max_batch_size=8, inputs=inputs, outputs=outputs)
        write_config(made, root / name / "config.pbtxt")
    write(root / "rows/1/model.onnx", onnx_file())
    write(root / "script/1/model.pt", script_archive())
    write(root / "code/1/model.py", _IMPORTS + PYTHON_CODE)
    write(root / "code/1/sibling.py", b"")
    write(root / "code/package/__init__.py", b"")


def checkpoint_file(
    *,
    version: int = 4,
    targets: int = 1,
    last: str = "softmax",
    classes: int = 3,
    base_scores: tuple[float, ...] = (0.0, 0.0, 0.0),
    class_ids: tuple[int, ...] = (0, 1, 2),
) -> bytes:
    """The head of a checkpoint of Treelite, without its trees."""
    arrays = [((classes,), "i"), ((1, 1), "i"), (class_ids, "i"), (class_ids, "i"), (last.encode(), "B")]
    packed_arrays = [struct.pack(f"<Q{len(each)}{kind}", len(each), *each) for each, kind in arrays]
    return b"".join(
        [
            struct.pack("<iiiBBQi", version, 1, 0, 2, 2, len(class_ids), 5),
            struct.pack("<BBi", 2 if classes > 1 else 0, 0, targets),
            *packed_arrays,
            struct.pack(f"<ffQ{len(base_scores)}d", 1.0, 1.0, len(base_scores), *base_scores),
        ]
    )


def write_rows_on_cuda(root: Path) -> None:
    write_rows(root)
    with Edit(root / "rows") as config:
        accelerators = config.optimization.execution_accelerators.gpu_execution_accelerator
        accelerators.add(name="cuda").parameters["use_tf32"] = "0"


def write_graph(root: Path) -> None:
    write(root / "graph/config.pbtxt", _GRAPH.encode())
    write(root / "graph/1/model.graphdef", b"graph")


def write_forest(root: Path) -> None:
    write(root / "forest/config.pbtxt", _FOREST.encode())
    write(root / "forest/1/xgboost.json", XGBOOST % b"")


def write_checkpoint(root: Path) -> None:
    config = _FOREST.replace("xgboost_json", "treelite_checkpoint").replace("dims: [ 2 ]", "dims: [ 3 ]")
    write(root / "forest/config.pbtxt", config.encode())
    write(root / CHECKPOINT_FILE, checkpoint_file())


def write_bert(root: Path) -> None:
    """A plan, with a tensor of a kind that only plans have."""
    write_plan(root, tensorrt=TENSORRT, record={"release": "25.09", "gpu": "A10G"})
    with Edit(root / "bert") as config:
        config.input.add(name="length", data_type="TYPE_INT32", dims=[1], is_shape_tensor=True)


def write_old_bert(root: Path) -> None:
    write_plan(root, tensorrt="8.6.1.6", record={"release": "24.01", "gpu": "A10G"})


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
        config.parameters["fleet.calls.judge"].string_value = "judge"
    write_environment(root / "minilm_pooling/environment")
    write(root / "minilm_pooling/1/model.py", _CALLER)
    write(root / "minilm_pooling/1/called_models.py", CALLED_MODELS.read_bytes())
    write_ranker(root / "judge")


def write_ranker(folder: Path) -> None:
    write(folder / "config.pbtxt", _RANKER.replace('"ranker"', f'"{folder.name}"').encode())
    write(folder / "1/model.pt", script_archive())


def write_minilm_with_packed(root: Path) -> None:
    """The same, with its environment as conda-pack leaves it."""
    write_minilm(root)
    packed(python="3.12")(root)
    shutil.rmtree(root / ENVIRONMENT)
    said("minilm_pooling", OWN, f"{OWN}.tar.gz")(root)


def write_streaming_minilm(root: Path) -> None:
    write_minilm(root)
    streaming("minilm_pooling")(root)


def write_repository(root: Path) -> None:
    """Models for a server of one's own: an ensemble, another one that runs it, and one of TorchScript."""
    write_minilm(root)
    (root / "build.json").unlink()
    write_ensemble_around("minilm", root / "search")
    write_ranker(root / "ranker")


def write_ensemble_around(name: str, folder: Path) -> None:
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
ROWS_ON_CUDA = Correct("rows-cuda", write_rows_on_cuda, OWN_SERVER)
OLD_BERT = Correct("bert-8", write_old_bert, Server(release="24.01"))
FOREST = Correct("forest", write_forest)
CHECKPOINT = Correct("checkpoint", write_checkpoint)
GRAPH = Correct("graph", write_graph, Server(release="24.09"))
MINILM = Correct("minilm", write_minilm)
PACKED = Correct("minilm-packed", write_minilm_with_packed)
STREAMING = Correct("minilm-streaming", write_streaming_minilm, SINGLE_MODEL)
REPOSITORY = Correct("repository", write_repository, OWN_SERVER)
ROWS = Correct("zoo", write_rows, OWN_SERVER)
