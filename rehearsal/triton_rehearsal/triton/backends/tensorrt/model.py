"""Replaces Triton's tensorrt backend without a GPU: runs the network of a plan.

A portable build for a GPU creates a stand-in for a plan, which describes that plan. It is refused where
TensorRT refuses the plan: with another TensorRT version than that of its build, on a GPU with another compute
capability, with a profile that it lacks, and for requests outside its profiles. The messages are TensorRT's
(in its support matrix and, for 10.x, in issues of NVIDIA/TensorRT) and those of Triton's backend
(src/loader.cc, and src/instance_state.cc of r25.09). An ONNX file in place of the plan has no such
description, and runs everywhere.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu import gpu_of  # type: ignore[import-not-found]
from onnx_model import OnnxModel  # type: ignore[import-not-found]
from stand_in import refuse  # type: ignore[import-not-found]

# As in triton_models: artifact/networks.py and builds/tensorrt/stand_in.py, which cannot be imported here.
_HEADER = struct.Struct("<II16x4B")
_MARK = b"\nstands in for a plan: "
_AMPERE = 8.0

_REFUSED = (
    "unable to create TensorRT engine: IRuntime::deserializeCudaEngine: Error Code 6: API Usage Error "
    "(The engine plan file is {}, please rebuild.)"
)
_OTHER_VERSION = "not compatible with this version of TensorRT, expecting library version {} got {}"
_OTHER_DEVICE = "generated on an incompatible device, expecting compute {} got compute {}"


Profile = Mapping[str, tuple[Sequence[int], Sequence[int]]]
"""The smallest and the largest shape of each input with open dimensions."""


class TritonPythonModel(OnnxModel):  # type: ignore[misc]  # found only inside the stub
    """Runs the network in the stand-in for a plan, or the ONNX file in place of a missing plan."""

    # TensorRT's last message, which Triton's backend passes on. Versions differ in the words in brackets.
    out_of_memory = (
        "unable to create TensorRT engine: IRuntime::deserializeCudaEngine: Error Code 2: OutOfMemory "
        "(Requested size was {wanted} bytes.)"
    )

    profiles: Sequence[Profile] = ()

    def memory_message(self, args: Mapping[str, str]) -> str:
        """Return TensorRT's error, which is lost if the server opens the plan to complete a configuration.

        AutoCompleteConfigHelper in src/model_state.cc of tensorrt_backend, main of 2026-08. On endpoints, the
        answer was a 400, and SageMaker evicted nothing (kshitizgupta21/triton-mme-gtc23, mme.ipynb of
        bf2aef49b7, cells 54 and 63, February 2023).
        """
        gpu = gpu_of(args)
        if gpu is None or not gpu.auto_completes:
            return self.out_of_memory
        return f"unable to load plan file to auto complete config: {self.folder / 'model.plan'}"

    def find_network(self) -> Path | bytes:
        """Return the stand-in of a plan; a real plan cannot run here."""
        plan = Path(self.folder) / _file_name(self.config)
        twins = (
            [plan] if plan.suffix == ".onnx" else [plan.with_suffix(".onnx"), plan.with_name("model.onnx")]
        )
        if plan.suffix != ".onnx" and plan.exists():
            about, network = _read(plan)
            self.choose(about.get("profiles") or [])
            return network
        found = next((path for path in twins if path.exists()), None)
        looked = " or ".join(f"'{path}'" for path in dict.fromkeys([plan, *twins]))
        return found or refuse(f"unable to find {looked} for model '{self.config['name']}'")

    def choose(self, profiles: Sequence[Profile]) -> None:
        """Keep the profiles of the configuration, as InitOptimizationProfiles of src/instance_state.cc does.

        It also refuses graphs of batches that the model does not have, as ValidateGraphSpec does.
        """
        named = [each for group in self.config.get("instance_group", []) for each in group.get("profile", [])]
        last = max(len(profiles) - 1, 0)
        if wrong := next((each for each in named if int(each) > last), None):
            refuse(
                f"Can not set the specified optimization profile {wrong}[{wrong}] for {self.name}. Expected "
                f"optimization profile index range 0-{last}"
            )
        largest = int(self.config.get("max_batch_size", 0))
        cuda = self.config.get("optimization", {}).get("cuda", {})
        graphs = cuda.get("graph_spec", []) if cuda.get("graphs") else []
        if any(not min(largest, 1) <= int(each["batch_size"]) <= largest for each in graphs):
            refuse(f"graph spec expects 'batch_size' to be >= 1 and <= {largest}")
        self.profiles = [profiles[int(each)] for each in (named or ["0"])] if profiles else []

    def run(self, wanted: Sequence[str], feed: Mapping[str, Any]) -> Sequence[Any]:
        """Run one batch, or refuse it as SetBindingDimensions of src/instance_state.cc does."""
        problems = [_outside(profile, feed, model=self.name) for profile in self.profiles]
        if problems and all(problems):
            raise ValueError(problems[0])
        results: Sequence[Any] = super().run(wanted, feed)
        return results


def _outside(profile: Profile, feed: Mapping[str, Any], *, model: str) -> str:
    """Return the error of the first shape that a profile excludes; "" if there is none."""
    for name, (least, most) in profile.items():
        for at, (low, size, high) in enumerate(zip(least, feed[name].shape, most, strict=True)):
            if not low <= size <= high:
                return (
                    f"request specifies invalid shape for input '{name}' for {model}. Error details: model "
                    f"expected the shape of dimension {at} to be between {low} and {high} but received {size}"
                )
    return ""


def _file_name(config: Mapping[str, Any]) -> str:
    """Return the file that the backend opens: that for the GPU's compute capability, or the default one."""
    by_capability: Mapping[str, str] = config.get("cc_model_filenames") or {}
    found = by_capability.get(_capability() or "") if by_capability else None
    return found or config.get("default_model_filename") or "model.plan"


def _read(plan: Path) -> tuple[Mapping[str, Any], bytes]:
    """Return the description and the network in a stand-in; refuse a plan that this machine cannot load."""
    content = plan.read_bytes()
    if not content[_HEADER.size :].startswith(_MARK):
        refuse(
            f"'{plan}' is a TensorRT plan: it runs only on the GPU model it was compiled for, and this "
            "server has no GPU. Build the model with FLEET_PORTABLE=1, as a rehearsal does: a stand-in with "
            "the network then replaces the plan"
        )
    line, _, network = content[_HEADER.size + len(_MARK) :].partition(b"\n")
    about: Mapping[str, Any] = json.loads(line)
    _refuse_other_version(".".join(map(str, _HEADER.unpack_from(content)[2:])))
    _refuse_other_device(about["compute_capability"], about.get("hardware", ""))
    return about, network


def _refuse_other_version(compiled: str) -> None:
    own = os.environ.get("TRT_VERSION", "").partition("+")[0]
    if own and any(mine != other for mine, other in zip(own.split("."), compiled.split("."))):  # noqa: B905
        refuse(_REFUSED.format(_OTHER_VERSION.format(own, compiled)))


def _refuse_other_device(compute_capability: str, hardware: str) -> None:
    own = _capability()
    if own is None or own == compute_capability:
        return
    if hardware == "ampere+" and own != "none" and float(own) >= _AMPERE:
        return
    refuse(_REFUSED.format(_OTHER_DEVICE.format(own, compute_capability)))


def _capability() -> str | None:
    """Return the compute capability of the first GPU; None if the server has no given machine."""
    if "TRT_VERSION" not in os.environ:
        return None
    run = subprocess.run(
        ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout.split("\n")[0].strip() if run.returncode == 0 else "none"
