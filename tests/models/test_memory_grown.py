"""Memory that grows while models run: shared memory of the real Python backend, and ONNX Runtime's arenas."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from one_server import ENDPOINT, ask
from onnx import TensorProto, helper

from triton_models.facts.containers import PythonRegions
from triton_models.spec import models_folder
from triton_rehearsal.triton.contract import MultiModelContract
from triton_rehearsal.triton.runtime import ENVIRONMENT
from triton_rehearsal.triton.server import TritonServer

ROWS, NUMBERS = 32, 256 * 384
CODE = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        given = [pb_utils.get_input_tensor_by_name(each, "x").as_numpy() for each in requests]
        means = [pb_utils.Tensor("y", each.mean(axis=1, keepdims=True)) for each in given]
        return [pb_utils.InferenceResponse(output_tensors=[each]) for each in means]
"""
CONFIG = f"""
backend: "python" max_batch_size: {ROWS}
input [{{ name: "x" data_type: TYPE_FP32 dims: [{NUMBERS}] }}]
output [{{ name: "y" data_type: TYPE_FP32 dims: [1] }}]
"""

# The arena that the decoder's sessions ask for, used as its cache is: each step needs a larger block.
DECODE = """
import json, sys, types
from pathlib import Path
import numpy as np, onnxruntime as ort

sys.modules["triton_python_backend_utils"] = types.ModuleType("triton_python_backend_utils")
sys.path.insert(0, sys.argv[1])
import translator

asked = []
session, ort.InferenceSession = ort.InferenceSession, lambda *_, providers: asked.append(providers) or here
here = types.SimpleNamespace(get_providers=lambda: ["CUDAExecutionProvider"])
model = translator.TritonPythonModel()
model.device = ("cuda", 0)
model._load("decoder.onnx", 1)
(name, settings), _ = asked[0]
wanted = settings.get("arena_extend_strategy", "kNextPowerOfTwo")
strategy = ["kNextPowerOfTwo", "kSameAsRequested"].index(wanted)

def rss():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

info = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
arena = {"max_mem": 0, "arena_extend_strategy": strategy}
rest = {"initial_chunk_size_bytes": -1, "max_dead_bytes_per_chunk": -1, "initial_growth_chunk_size_bytes": -1}
ort.create_and_register_allocator(info, ort.OrtArenaCfg({**arena, **rest}))
options = ort.SessionOptions()
options.add_session_config_entry("session.use_env_allocators", "1")
step = session(sys.argv[2], options, providers=["CPUExecutionProvider"])
new = np.ones((2, 48, 1, 64), np.float32)
past = ort.OrtValue.ortvalue_from_numpy(np.zeros((2, 48, 0, 64), np.float32))
before = rss()
for _ in range(128):
    binding = step.io_binding()
    binding.bind_cpu_input("new", new)
    binding.bind_ortvalue_input("past", past)
    binding.bind_output("all", "cpu", 0)
    step.run_with_iobinding(binding)
    (past,) = binding.get_outputs()
print(json.dumps([rss() - before, past.numpy().nbytes]))
"""


def test_batches_of_several_sizes_leave_a_region_of_the_size_that_the_rule_counts(tmp_path: Path) -> None:
    model = tmp_path / "mean" / "mean"
    (model / "1").mkdir(parents=True)
    (model / "1" / "model.py").write_text(CODE)
    (model / "config.pbtxt").write_text(CONFIG)
    counted = PythonRegions(count=1, row=(NUMBERS + 1) * 4, rows=ROWS).each

    with TritonServer(ENDPOINT, tmp_path / "server") as server, MultiModelContract(server.socket) as contract:
        assert contract.load(model_id="mean", target_model="mean", folder=str(model.parent)).ok
        sizes = []
        for rows in (ROWS // 4, ROWS // 2, ROWS, 1):
            answered = ask(contract, "mean", {"x": np.ones((rows, NUMBERS), np.float32)})
            assert answered["y"].tolist() == [[1.0]] * rows
            regions = Path("/dev/shm").glob(f"{server.mark}*")  # noqa: S108
            sizes.append(sum(each.stat().st_size for each in regions))

    *_, full, after = sizes
    assert after == full == pytest.approx(counted, abs=2 << 20)


def test_the_arena_of_the_t5_decoder_stays_near_the_size_of_its_cache(tmp_path: Path) -> None:
    tensors = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 48, name, 64])
        for name in ("past", "new", "all")
    }
    longer = helper.make_node("Concat", ["past", "new"], ["all"], axis=2)
    graph = helper.make_graph([longer], "step", [tensors["past"], tensors["new"]], [tensors["all"]])
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "step.onnx")
    t5 = models_folder() / "t5_translation"
    command = [ENVIRONMENT / "bin" / "python", "-Bc", DECODE, t5, tmp_path / "step.onnx"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stderr
    grown, cache = json.loads(run.stdout)
    assert cache < grown < 10 * cache
