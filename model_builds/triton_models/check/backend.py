"""The backend of a model, as Triton derives it from the configuration and the first version folder.

It follows AutoCompleteBackendFields of Triton core (src/model_config_utils.cc; release 24.10, and for
model.pt2 release 26.03; read 2026-11-21).
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from triton_models.artifact.layout import Layout
from triton_models.artifact.pbtxt import ModelConfig

# Platforms that belong to a backend, from the same file and constants.h.
PLATFORM_BACKENDS: Mapping[str, str] = {
    "libtorch": "pytorch",
    "onnxruntime_onnx": "onnxruntime",
    "pytorch_libtorch": "pytorch",
    "tensorflow_graphdef": "tensorflow",
    "tensorflow_savedmodel": "tensorflow",
    "tensorrt_plan": "tensorrt",
    "torch_aoti": "pytorch",
}

# The default platforms of backends that have one. Other backends accept any platform.
_DEFAULT_PLATFORMS = {
    "onnxruntime": "onnxruntime_onnx",
    "pytorch": "pytorch_libtorch",
    "tensorrt": "tensorrt_plan",
}

# The files or folders that a backend opens in a version folder if the configuration does not name one, from
# the same source and each backend's documentation; read 2026-11-21. One per row is enough. Backends that are
# not listed may not need a file.
MODEL_FILES: Mapping[str, tuple[str, ...]] = {
    "dali": ("model.dali", "dali.py"),
    "fil": ("xgboost.model", "xgboost.json", "xgboost.ubj", "model.txt", "checkpoint.tl", "model.pkl"),
    "onnxruntime": ("model.onnx",),
    "openvino": ("model.xml",),
    "python": ("model.py",),
    "pytorch": ("model.pt", "model.pt2", "model.py"),
    "tensorflow": ("model.savedmodel", "model.graphdef"),
    "tensorrt": ("model.plan",),
    "vllm": ("model.json",),
}

# In the order in which core looks for them: file name, backend, True if it may also be a folder.
_TOLD_BY_FILE = (
    ("model.plan", "tensorrt", False),
    ("model.onnx", "onnxruntime", True),
    ("model.xml", "openvino", True),
    ("model.pt", "pytorch", False),
    ("model.pt2", "pytorch", False),
    ("model.py", "python", True),
)

# Backends that do not fill in missing inputs and outputs of a configuration: pytorch, by its documentation
# (docs/user_guide/model_configuration.md of triton-inference-server/server, "Auto-Generated Model
# Configuration", read 2026-11-21). Custom backends may fill them in.
_COMPLETES_NOTHING = frozenset({"pytorch"})
_PYTHON_COMPLETES = b"auto_complete_config"

# These backends fill in inputs or outputs only if none are listed: AutoCompleteConfig of onnxruntime_backend,
# FixIO of tensorrt_backend and AutoCompleteInputOrOutput of openvino_backend (r25.09, read 2026-11-22). DALI,
# a model.py and custom backends may add to listed ones.
_COMPLETES_EMPTY_SIDES = frozenset({"onnxruntime", "openvino", "tensorrt"})
_MAX_MODEL_PY = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """The backend of a model, its platform, and the file that it opens in a version folder; "" if unknown."""

    name: str = ""
    platform: str = ""
    filename: str = ""

    def completes(self, layout: Layout, path: str) -> bool:
        """Return True if it may fill in missing inputs and outputs of a configuration."""
        if self.name in _COMPLETES_NOTHING or self.platform == "ensemble":
            return False
        if self.name != "python":
            return True
        sources = [posixpath.join(path, folder, self.filename) for folder in layout.children(path)]
        contents = [layout.beginning(p, _MAX_MODEL_PY) for p in sources if p in layout.files]
        return any(content is None or _PYTHON_COMPLETES in content for content in contents)

    @property
    def adds_tensors(self) -> bool:
        """Return True if a backend that completes configurations may add to listed inputs or outputs."""
        return self.name not in _COMPLETES_EMPTY_SIDES


def backend_of(config: ModelConfig, *, folder: str, path: str, layout: Layout) -> Backend:
    """Return the backend of a model, whose directory is called `folder` and is at a path of the layout."""
    tensorflow = _tensorflow(config, path, layout)
    if tensorflow is not None:
        return tensorflow
    name = config.backend or _told(config, path, layout)
    platform, filename = config.platform, config.default_model_filename
    if name == "pytorch" and not platform:
        plain = filename or not _in_first_version(layout, path, "model.pt2")
        platform = "pytorch_libtorch" if plain or config.backend else "torch_aoti"
    platform = platform or _DEFAULT_PLATFORMS.get(name, "")
    if not (name or config.platform or filename) and "." in folder:
        # The last resort: the model's name contains its backend, such as "model.identity".
        name = folder.partition(".")[2]
        filename = f"model.{name}"
    return Backend(name=name, platform=platform, filename=filename or _default_file(name))


def _default_file(name: str) -> str:
    """Return the file that core names for a backend; "" if core leaves it to the backend."""
    files = MODEL_FILES.get(name, ())
    return files[0] if len(files) == 1 and name != "vllm" else ""


def _tensorflow(config: ModelConfig, path: str, layout: Layout) -> Backend | None:
    platform = config.platform
    if not platform and config.backend in {"", "tensorflow"}:
        by_name = {"model.savedmodel": "tensorflow_savedmodel", "model.graphdef": "tensorflow_graphdef"}
        if config.default_model_filename:
            platform = by_name.get(config.default_model_filename, "")
        else:
            if _in_first_version(layout, path, "model.savedmodel") == "folder":
                platform = "tensorflow_savedmodel"
            if _in_first_version(layout, path, "model.graphdef") == "file":
                platform = "tensorflow_graphdef"
    if platform not in {"tensorflow_graphdef", "tensorflow_savedmodel"}:
        return None
    default = f"model.{platform.partition('_')[2]}"
    return Backend(
        name=config.backend or "tensorflow",
        platform=platform,
        filename=config.default_model_filename or default,
    )


def _told(config: ModelConfig, path: str, layout: Layout) -> str:
    """Return the backend, from the platform, the file name or the file; "" if unknown."""
    for filename, backend, folder_too in _TOLD_BY_FILE:
        if PLATFORM_BACKENDS.get(config.platform) == backend or config.default_model_filename == filename:
            return backend
        if config.platform or config.default_model_filename:
            continue
        found = _in_first_version(layout, path, filename)
        if found == "file" or (found and folder_too):
            return backend
    return ""


def _in_first_version(layout: Layout, path: str, name: str) -> str:
    """Return "file" or "folder" if a model's first folder, by name, has one with that name; "" otherwise."""
    folders = layout.children(path)
    if not folders:
        return ""
    found = posixpath.join(path, folders[0], name)
    return "file" if found in layout.files else "folder" if found in layout.directories else ""
