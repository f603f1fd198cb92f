"""Model folders that Triton accepts, for tests to break one thing at a time."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.triton_models.real_networks import write_onnx
from triton_models.artifact.pbtxt import ModelConfig, ensemble, plain, read_config, step, tensor, write_config
from triton_models.declare.scheduling import DynamicBatching

INPUT = tensor("image", "FP32", [3, 224, 224])
OUTPUT = tensor("scores", "FP32", [1000])
PYTHON_CODE = b"class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"


def write_plain(root: Path, *, name: str = "resnet50") -> Path:
    config = plain(
        name=name,
        backend="onnxruntime",
        max_batch_size=8,
        inputs=[INPUT],
        outputs=[OUTPUT],
        batching=DynamicBatching(preferred=(4, 8), max_delay_us=100),
    )
    write_config(config, root / name / "config.pbtxt")
    write_onnx(root / name)
    return root


def write_ensemble(root: Path, *, gpu: str | None = None) -> Path:
    """An artifact root with the ensemble `minilm`: tokenizer, encoder and pooling."""
    ids, mask = tensor("input_ids", "INT32", [-1]), tensor("attention_mask", "INT32", [-1])
    hidden, vector = tensor("hidden", "FP32", [-1, 384]), tensor("embedding", "FP32", [384])
    text = tensor("TEXT", "STRING", [1])
    models = {
        "minilm_tokenizer": plain(
            name="minilm_tokenizer",
            backend="python",
            max_batch_size=16,
            inputs=[text],
            outputs=[ids, mask],
            kind="KIND_CPU",
        ),
        "minilm_encoder": plain(
            name="minilm_encoder", backend="tensorrt", max_batch_size=16, inputs=[ids, mask], outputs=[hidden]
        ),
        "minilm_pooling": plain(
            name="minilm_pooling",
            backend="python",
            max_batch_size=16,
            inputs=[hidden, mask],
            outputs=[vector],
        ),
        "minilm": ensemble(
            name="minilm",
            max_batch_size=16,
            inputs=[text],
            outputs=[vector],
            steps=[
                step(
                    "minilm_tokenizer",
                    inputs={"TEXT": "TEXT"},
                    outputs={"input_ids": "ids", "attention_mask": "mask"},
                ),
                step(
                    "minilm_encoder",
                    inputs={"input_ids": "ids", "attention_mask": "mask"},
                    outputs={"hidden": "hidden"},
                ),
                step(
                    "minilm_pooling",
                    inputs={"hidden": "hidden", "attention_mask": "mask"},
                    outputs={"embedding": "embedding"},
                ),
            ],
        ),
    }
    for name, config in models.items():
        write_config(config, root / name / "config.pbtxt")
    write(root / "minilm_tokenizer" / "1" / "model.py", PYTHON_CODE)
    if gpu is None:
        write_onnx(root / "minilm_encoder")
    else:
        write(root / "minilm_encoder" / "1" / "model.plan", b"plan")
    write(root / "minilm_pooling" / "1" / "model.py", PYTHON_CODE)
    write(root / "minilm" / "1" / ".keep", b"")
    write(root / "build.json", json.dumps({"model": "minilm", "release": "25.09", "gpu": gpu}).encode())
    return root


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def write_environment(folder: Path, *, python: str = "3.12", numpy: str = "2.2.6") -> Path:
    """An environment as a build lays it; returns the folder of its packages."""
    packages = folder / "lib" / f"python{python}" / "site-packages"
    number = python.replace(".", "")
    write(folder / "bin/activate", b"")
    write(folder / "bin/python3", b"#!/bin/sh\n")
    write(folder / "pyvenv.cfg", b"home = /usr/bin\n")
    write(packages / "numpy/__init__.py", b"")
    write_tag(packages / f"numpy-{numpy}.dist-info", f"cp{number}-cp{number}-manylinux_2_17_x86_64")
    return packages


def write_tag(folder: Path, *tags: str) -> None:
    lines = "".join(f"Tag: {tag}\n" for tag in tags)
    write(folder / "WHEEL", f"Wheel-Version: 1.0\nGenerator: {'x' * 99}\n{lines}\n".encode())


class Edit:
    """Changes a configuration in place: `with Edit(root / "resnet50") as config: ...`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "config.pbtxt"

    def __enter__(self) -> ModelConfig:
        self._config = read_config(self._path)
        return self._config

    def __exit__(self, *_: object) -> None:
        write_config(self._config, self._path)


def tar(root: Path, archive: Path, *, links: bool = False) -> Path:
    """An archive of a folder's content, made without the code under test; of links only if wanted."""
    with tarfile.open(archive, "w:gz", dereference=not links) as file:
        for path in sorted(root.rglob("*")):
            file.add(path, arcname=str(path.relative_to(root)), recursive=False)
    return archive


def untar(archive: Path, folder: Path) -> None:
    """Unpack with tar: Python 3.10.0 to 3.10.11 and 3.11.0 to 3.11.3 have no filters in tarfile."""
    folder.mkdir(parents=True)
    subprocess.run(["tar", "-xzf", archive, "-C", folder], check=True)


def peak_bytes(code: str, *arguments: Path) -> int:
    """Run code in a process of its own, and return the most memory that it took."""
    peak = 'print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])'
    command = [sys.executable, "-c", f"import re, sys\nfrom pathlib import Path\n{code}\n{peak}", *arguments]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) * 1024
