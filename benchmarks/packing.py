"""The time to pack weights into an artifact, to read the artifact, and to unpack it on an instance."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.ratio import Ratio, measure
from triton_models.artifact.archive import members
from triton_models.config.pbtxt import plain, tensor, write_config

# Megabytes of weights. The ratio grows with them, for the command's start counts less: 1000 shows it whole.
MEGABYTES = int(os.environ.get("FLEET_BENCH_MB", "200"))


def ratios(*, short: bool) -> list[Ratio]:
    """`fleet pack` against `tar -czf`, reading the artifact, and unpacking what each of them made."""
    megabytes = 2 if short else MEGABYTES
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as name:
        folder = Path(name)
        root, packed, unpacked = folder / "model", folder / "packed", folder / "unpacked"
        _write_model(root, megabytes)
        theirs = packed / "model.tar.gz"
        packing = measure(
            f"pack {megabytes} MB of weights",
            ours=("fleet pack", lambda: _pack(root, packed)),
            theirs=("tar -czf", lambda: _run("tar", "-czf", str(theirs), "-C", str(root), ".")),
            pairs=3,
            short=short,
            reset=lambda: shutil.rmtree(packed),
        )
        _pack(root, packed)
        (ours,) = packed.iterdir()
        reading = measure(
            f"read {megabytes} MB of weights",
            ours=("triton_models.artifact.archive", lambda: _read(ours)),
            theirs=("tarfile, r|gz", lambda: _read_with_tarfile(ours)),
            pairs=5,
            short=short,
        )
        _run("tar", "-czf", str(theirs), "-C", str(root), ".")
        unpacking = measure(
            f"unpack {megabytes} MB of weights",
            ours=("tar -xzf of fleet pack's", lambda: _unpack(ours, unpacked / "ours")),
            theirs=("tar -xzf of tar -czf's", lambda: _unpack(theirs, unpacked / "theirs")),
            pairs=5,
            short=short,
            reset=lambda: shutil.rmtree(unpacked),
        )
    return [packing, reading, unpacking]


def _write_model(root: Path, megabytes: int) -> None:
    """Half of the weights in single, half in half precision, distributed as those of a trained network."""
    x = tensor("X", "FP32", [1])
    config = plain(name="weights", backend="onnxruntime", max_batch_size=8, inputs=[x], outputs=[x])
    write_config(config, root / "weights" / "config.pbtxt")
    chance = np.random.default_rng(0)
    (root / "weights" / "1").mkdir()
    with (root / "weights" / "1" / "model.onnx").open("wb") as file:
        for width, kind in ((4, np.float32), (2, np.float16)):
            for _ in range(megabytes):
                numbers = chance.standard_normal(500_000 // width, dtype=np.float32) * 0.02
                file.write(numbers.astype(kind).tobytes())


def _pack(root: Path, output: Path) -> None:
    _run(sys.executable, "-m", "triton_models", "pack", str(root), "-o", str(output))


def _read(archive: Path) -> None:
    with archive.open("rb") as source:
        for _ in members(source, where=str(archive)):
            pass


def _read_with_tarfile(archive: Path) -> None:
    with tarfile.open(archive, "r|gz") as members_of_it:
        for _ in members_of_it:
            pass


def _unpack(archive: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    _run("tar", "-xzf", str(archive), "-C", str(folder))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
