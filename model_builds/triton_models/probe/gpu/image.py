"""Probes of the release's image, which need no GPU: CUDA, Python, NumPy, DALI, the server, its backends."""

from __future__ import annotations

import mmap
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from triton_models.builds.tensorrt.driver import IMAGE_COMPAT
from triton_models.declare.requires import IMAGE_MODULES
from triton_models.facts.dali import dali_version
from triton_models.facts.image_contents import IMAGE_SERVER, REPOSITORY_AGENTS, backends
from triton_models.probe.gpu.machine import IMAGE_VARIABLE, Ran, image_python, python_says, ran
from triton_models.probe.gpu.making import ask_python
from triton_models.probe.gpu.situation import GpuProbe, Situation
from triton_models.probe.verdict import Verdict, decide, false, true, undecided

# Those that this project reads or passes on.
_VARIABLES = (IMAGE_VARIABLE, "PYTHONPATH", "TRT_VERSION", "CUDA_VERSION", "LD_LIBRARY_PATH")

NUMPY = "import numpy; print(numpy.__version__, numpy.__file__)"
_MODEL_SECONDS = 600.0
_DALI = "import nvidia.dali as dali; print(dali.__version__, dali.__file__)"


def release(situation: Situation) -> Iterator[Verdict]:
    """Check if the image names its release."""
    if situation.image is None:
        yield undecided("image-names-release", f"{IMAGE_VARIABLE} is not set: this may not be a Triton image")
        return
    variables = {name: situation.environment.get(name) for name in _VARIABLES}
    situation.observe("variables-of-image", {"release": situation.release.name}, variables)
    yield true("image-names-release", f"{IMAGE_VARIABLE}={situation.image}")


def cuda(situation: Situation) -> Iterator[Verdict]:
    """Compare CUDA_VERSION, which NVIDIA's images set, with the table, and look for a newer driver."""
    drivers = sorted(path.name for path in IMAGE_COMPAT.glob("libcuda.so*"))
    seen = f"{IMAGE_COMPAT} has {', '.join(drivers) or 'no libcuda.so'}"
    yield decide("forward-compatibility-in-image", seen, holds=bool(drivers))
    found, expected = situation.environment.get("CUDA_VERSION", ""), situation.release.cuda
    if not found:
        yield undecided("cuda-per-release", "CUDA_VERSION is not set in this environment")
        return
    situation.observe("cuda-of-image", {"release": situation.release.name}, {"cuda": found})
    seen = f"CUDA_VERSION={found}; the table has {expected}"
    yield decide("cuda-per-release", seen, holds=_begins_alike(found, expected))


def python(situation: Situation) -> Iterator[Verdict]:
    """Compare the image's Python with the table."""
    answer = ran(image_python(), "--version")
    found = answer.last.removeprefix("Python ")
    if answer.status:
        yield undecided("python-per-release", f"{answer.last}")
        return
    minor = ".".join(found.split(".")[:2])
    situation.observe("python-of-image", {"release": situation.release.name}, {"python": minor})
    seen = f"python3 is {found}; the table has {situation.release.python}"
    yield decide("python-per-release", seen, holds=minor == situation.release.python)


def numpy(situation: Situation) -> Iterator[Verdict]:
    """Find which NumPy the image's Python imports, and from where."""
    expected = IMAGE_MODULES["nvidia.dali"]
    path = situation.environment.get("PYTHONPATH", "")
    folders = [Path(each) for each in path.split(os.pathsep) if each]
    yield decide("image-python-path", f"PYTHONPATH={path!r}", holds=expected in folders)
    answer = python_says(NUMPY)
    if answer.status:
        yield undecided("numpy-location", f"{answer.last}")
        yield undecided("numpy-per-release", f"{answer.last}")
        return
    version, _, where = answer.last.partition(" ")
    asked = {"release": situation.release.name}
    situation.observe("numpy-of-image", asked, {"version": version, "file": where})
    yield decide("numpy-location", f"NumPy {version} is {where}", holds=Path(where).is_relative_to(expected))
    below = situation.release.numpy_below
    needs = f"NumPy below {below}" if below else "any NumPy"
    yield decide(
        "numpy-per-release",
        f"NumPy {version}; release {situation.release.name} needs {needs}",
        holds=below is None or int(version.partition(".")[0]) < below,
    )


def python_model(situation: Situation) -> Iterator[Verdict]:
    """Compare the Python and NumPy of a Python model in the server with python3's."""
    belief = "python-model-numpy"
    root = situation.folder / "python-model"
    ended = situation.worker.do(
        ask_python,
        root,
        name="python-model",
        seconds=_MODEL_SECONDS,
        log=situation.folder / "python-model.log",
    )
    facts = ended.answer
    if facts is None:
        yield undecided(belief, f"{ended.problems[0].what} [{ended.problems[0].rule}]")
        return
    asked = {"release": situation.release.name}
    situation.observe("python-model", asked, {name: facts[name] for name in ("python", "numpy", "file")})
    expected = python_says(NUMPY)
    seen = f"a model imports NumPy {facts['numpy']} from {facts['file']}; python3 imports {expected.last}"
    yield decide(belief, seen, holds=expected.last == f"{facts['numpy']} {facts['file']}")


def dali(situation: Situation) -> Iterator[Verdict]:
    """Compare the image's DALI with the table."""
    answer = python_says(_DALI)
    expected = dali_version(situation.release)
    if answer.status:
        yield _not_imported(answer)
    else:
        version, _, where = answer.last.partition(" ")
        situation.observe("dali-of-image", {"release": situation.release.name}, {"version": version})
        inside = Path(where).is_relative_to(IMAGE_MODULES["nvidia.dali"])
        seen = f"DALI {version} is {where}; the table has {expected}"
        yield decide("dali-in-image", seen, holds=inside and _begins_alike(version, expected))


def server(situation: Situation) -> Iterator[Verdict]:
    """Look for the server, and for backends that the release should not have."""
    program = shutil.which("tritonserver")
    there = os.access(IMAGE_SERVER, os.X_OK)
    seen = f"on PATH: {program}; {IMAGE_SERVER} is {'there' if there else 'missing'}"
    yield decide("server-in-image", seen, holds=program is not None and there)
    folder = _backends()
    found, cpu = _names(folder), "CUDA_VERSION" not in situation.environment
    situation.observe("backends-of-image", {"release": situation.release.name}, {"backends": found})
    expected = sorted(backends(situation.release, cpu=cpu))
    seen = f"{folder} has {', '.join(found) or 'nothing'}; expected are {', '.join(expected)}"
    yield decide("backends-in-image", seen, holds=found == expected)
    agents = _names(IMAGE_SERVER.parents[1] / "repoagents")
    seen = f"agents: {', '.join(agents) or 'none'}"
    yield decide("agents-in-image", seen, holds=set(agents) == REPOSITORY_AGENTS)


def onnxruntime(situation: Situation) -> Iterator[Verdict]:
    """Read ONNX Runtime's version from the symbols of the backend's library."""
    libraries = sorted(_backends().glob("onnxruntime/libonnxruntime.so*"))
    found = next((version for path in libraries if (version := _symbol_version(path))), None)
    if found is None:
        reason = f"no libonnxruntime.so in {_backends()}/onnxruntime names its version"
        yield undecided("onnxruntime-per-release", reason)
        return
    expected = situation.release.onnxruntime
    situation.observe("onnxruntime-of-image", {"release": situation.release.name}, {"version": found})
    yield decide(
        "onnxruntime-per-release", f"ONNX Runtime {found}; the table has {expected}", holds=found == expected
    )


def _backends() -> Path:
    return IMAGE_SERVER.parents[1] / "backends"


def _symbol_version(library: Path) -> str | None:
    """Return the version in the symbols of an ONNX Runtime library, such as VERS_1.23.0; None without any."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        match = re.search(rb"\0VERS_(\d+\.\d+\.\d+)\0", content)
        return match[1].decode() if match else None


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def _not_imported(answer: Ran) -> Verdict:
    return false("dali-in-image", f"nvidia.dali cannot be imported: {answer.last}")


def _begins_alike(found: str, expected: str) -> bool:
    """Return whether two versions agree in the numbers that both have."""
    return all(own == other for own, other in zip(found.split("."), expected.split("."), strict=False))


PROBES = (
    GpuProbe(
        id="release",
        what="reads the image's release",
        decides=("image-names-release",),
        ask=release,
        needs_image=False,
    ),
    GpuProbe(
        id="cuda",
        what="reads CUDA's version",
        decides=("cuda-per-release", "forward-compatibility-in-image"),
        ask=cuda,
    ),
    GpuProbe(id="python", what="reads python3's version", decides=("python-per-release",), ask=python),
    GpuProbe(
        id="numpy",
        what="imports NumPy as a Python model does",
        decides=("image-python-path", "numpy-location", "numpy-per-release"),
        ask=numpy,
    ),
    GpuProbe(
        id="python-model",
        what="reads a Python model's NumPy",
        decides=("python-model-numpy",),
        ask=python_model,
    ),
    GpuProbe(id="dali", what="imports DALI", decides=("dali-in-image",), ask=dali),
    GpuProbe(
        id="onnxruntime",
        what="reads ONNX Runtime's version",
        decides=("onnxruntime-per-release",),
        ask=onnxruntime,
    ),
    GpuProbe(
        id="server",
        what="looks for the server and its backends",
        decides=("server-in-image", "backends-in-image", "agents-in-image"),
        ask=server,
    ),
)
