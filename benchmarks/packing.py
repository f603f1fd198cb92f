"""The time to pack weights into an artifact, and to unpack it on an instance."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.ratio import Ratio, measure
from triton_models.artifact.pbtxt import plain, tensor, write_config

# Megabytes of weights. The ratio grows with them, for the command's start counts less: 1000 shows it in full.
MEGABYTES = int(os.environ.get("FLEET_BENCH_MB", "200"))


def ratios(*, short: bool) -> Iterator[Ratio]:
    """`fleet pack` against `tar -czf`, and unpacking what each of them made."""
    megabytes = 2 if short else MEGABYTES
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as name:
        folder = Path(name)
        root, packed, unpacked = folder / "model", folder / "packed", folder / "unpacked"
        theirs = packed / "model.tar.gz"
        _write_model(root, megabytes)
        yield measure(
            f"pack {megabytes} MB of weights",
            ours=("fleet pack", lambda: _pack(root, packed)),
            theirs=("tar -czf", lambda: _run("tar", "-czf", str(theirs), "-C", str(root), ".")),
            pairs=3,
            short=short,
            reset=lambda: shutil.rmtree(packed),
        )
        _pack(root, packed)
        (ours,) = packed.iterdir()
        _run("tar", "-czf", str(theirs), "-C", str(root), ".")
        yield measure(
            f"unpack {megabytes} MB of weights",
            ours=("tar -xzf of fleet pack's", lambda: _unpack(ours, unpacked / "ours")),
            theirs=("tar -xzf of tar -czf's", lambda: _unpack(theirs, unpacked / "theirs")),
            pairs=5,
            short=short,
            reset=lambda: shutil.rmtree(unpacked),
        )


def _write_model(root: Path, megabytes: int) -> None:
    """Half of the weights in single, half in half precision, distributed as those of a trained network."""
    inputs, outputs = [tensor("X", "FP32", [1])], [tensor("Y", "FP32", [1])]
    config = plain(name="weights", backend="onnxruntime", max_batch_size=8, inputs=inputs, outputs=outputs)
    write_config(config, root / "weights" / "config.pbtxt")
    chance = np.random.default_rng(0)
    weights = []
    for width, kind in ((4, np.float32), (2, np.float16)):
        for number in range(megabytes):
            numbers = chance.standard_normal(500_000 // width, dtype=np.float32) * 0.02
            weights.append(numpy_helper.from_array(numbers.astype(kind), f"{np.dtype(kind)} {number}"))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 1]) for name in ("X", "Y"))
    graph = helper.make_graph([helper.make_node("Neg", ["X"], ["Y"])], "network", [x], [y], weights)
    network = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    (root / "weights" / "1").mkdir()
    onnx.save(network, root / "weights" / "1" / "model.onnx")


def _pack(root: Path, output: Path) -> None:
    _run(sys.executable, "-m", "triton_models", "pack", str(root), "-o", str(output))


def _unpack(archive: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    _run("tar", "-xzf", str(archive), "-C", str(folder))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
