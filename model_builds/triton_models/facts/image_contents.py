"""The contents of each release's images besides the server: backends, agents and Python modules.

Sources, read on 2026-11-22:

* NVIDIA's image: `enable_all` in build.py of triton-inference-server/server, r23.12 to r26.06. All branches
  name the same contents, except TensorFlow, which was removed in 25.03 (`releases.REMOVED_BACKENDS`). vLLM
  and TensorRT-LLM have separate images, with only the Python backend.
* Images without CUDA: docs/customization_guide/build.md of the same repository, "CPU-Only Build". It leaves
  out DALI as well, although dali_backend can be built without CUDA. It is unknown if AWS's `-cpu` image has
  DALI, so models with DALI are not refused.
* AWS's image: not documented. Its maintainers say that NVIDIA's image has what SageMaker needs
  (aws/deep-learning-containers issue 4047), so this table assumes the same contents.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triton_models.facts.releases import REMOVED_BACKENDS, Release

IMAGE_SERVER = Path("/opt/tritonserver/bin/tritonserver")
"""The path of the server in NVIDIA's images; its folder is also on their PATH."""

_BACKENDS = frozenset(
    {
        *("dali", "fil", "identity", "onnxruntime", "openvino", "python", "pytorch", "repeat", "square"),
        *("tensorflow", "tensorrt"),
    }
)

_NEED_CUDA = frozenset({"tensorrt"})

BACKEND_LIBRARIES: Mapping[str, tuple[str, ...]] = {
    **{name: (f"libtriton_{name}.so",) for name in sorted(_BACKENDS)},
    "pytorch": ("libtriton_pytorch.so", "model.py"),
}
"""The valid values of `runtime`, by backend. PyTorch's model.py is in pytorch_backend since r24.01."""

REPOSITORY_AGENTS = frozenset({"checksum"})
"""The repository agents in every image."""

# Top-level modules of the image's Python besides the standard library: create_dockerfile_linux in build.py of
# server, r23.12 to r26.05. Since 24.12 also requirements.txt of server's python/openai, and its dependencies:
# partial-json-parser is in it since r25.05, scipy since r26.01 (r24.12 to r26.07, read 2026-11-25).
_MODULES = frozenset({"c_python_backend_utils", "numpy", "pip", "pkg_resources", "setuptools", "wheel"})
_MODULES_SINCE: Mapping[str, frozenset[str]] = {
    "24.05": frozenset({"nvidia", "virtualenv"}),
    "24.12": frozenset(
        {
            *("annotated_types", "anyio", "certifi", "distro", "fastapi", "h11", "httpcore", "httpx"),
            *("idna", "jiter", "openai", "pydantic", "pydantic_core", "sniffio"),
            *("starlette", "tqdm", "tritonfrontend", "tritonserver", "typing_extensions"),
        }
    ),
    "25.05": frozenset({"partial_json_parser"}),
    "26.01": frozenset({"scipy"}),
}

CUSTOM_IMAGE_ADDS = "custom_image_adds"
"""The key of build.json with the backends, agents and modules that a custom image adds."""

NAME_ADDED = f"{CUSTOM_IMAGE_ADDS} of the declaration, or --image-adds of `fleet adopt` or `fleet check`"
"""The places that name what a custom image adds, for fixes."""


def backends(release: Release | None = None, *, cpu: bool = False) -> frozenset[str]:
    """Return the backends of a release's image, or of all together; with `cpu`, of AWS's `-cpu` image."""
    gone = {name for name, since in REMOVED_BACKENDS.items() if release is not None and release.name >= since}
    return _BACKENDS - gone - (_NEED_CUDA if cpu else frozenset())


def python_packages(release: Release | None) -> frozenset[str]:
    """Return the modules that Python models can import from a release's image, or from any."""
    since = (each for name, each in _MODULES_SINCE.items() if release is None or release.name >= name)
    return _MODULES.union({"triton_python_backend_utils"}, *since)


def added(record: Mapping[str, Any]) -> frozenset[str]:
    """Return the backends, agents and modules that a custom image adds, by a build.json."""
    said = record.get(CUSTOM_IMAGE_ADDS)
    return frozenset(str(name) for name in said) if isinstance(said, list) else frozenset()
