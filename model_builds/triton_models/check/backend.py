"""The backend of a model, as Triton derives it from the configuration and the first version folder.

It follows AutoCompleteBackendFields of Triton core (src/model_config_utils.cc; release 24.10, and for
model.pt2 release 26.03; read 2026-11-21).
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from triton_models.artifact.layout import Layout
from triton_models.config.pbtxt import ModelConfig

# Platforms that belong to a backend, from the same file and constants.h.
PLATFORM_BACKENDS: Mapping[str, str] = MappingProxyType(
    {
        "libtorch": "pytorch",
        "onnxruntime_onnx": "onnxruntime",
        "pytorch_libtorch": "pytorch",
        "tensorflow_graphdef": "tensorflow",
        "tensorflow_savedmodel": "tensorflow",
        "tensorrt_plan": "tensorrt",
        "torch_aoti": "pytorch",
    }
)

# What these backends are paired with. Every other backend takes any platform.
_DEFAULT_PLATFORMS = MappingProxyType(
    {"onnxruntime": "onnxruntime_onnx", "pytorch": "pytorch_libtorch", "tensorrt": "tensorrt_plan"}
)

# The file or folder that a backend opens in a version folder when the configuration names none, from the same
# source and from each backend's own documentation; read 2026-11-21. Any one of a row will do. A backend that
# is not listed may need no file at all.
MODEL_FILES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
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
)

# In the order in which core looks for them: file name, backend, whether a folder of that name is one too.
_TOLD_BY_FILE = (
    ("model.plan", "tensorrt", False),
    ("model.onnx", "onnxruntime", True),
    ("model.xml", "openvino", True),
    ("model.pt", "pytorch", False),
    ("model.pt2", "pytorch", False),
    ("model.py", "python", True),
)

# What fills in inputs and outputs that a configuration leaves out (docs/user_guide/model_configuration.md of
# triton-inference-server/server, "Auto-Generated Model Configuration", read 2026-11-21). The pytorch backend
# says of itself that it cannot. A backend of the user's own may.
_COMPLETES_NOTHING = frozenset({"pytorch"})
_PYTHON_COMPLETES = b"auto_complete_config"

# These fill in only a side that lists nothing: AutoCompleteConfig of onnxruntime_backend, FixIO of
# tensorrt_backend and AutoCompleteInputOrOutput of openvino_backend (r25.09, read 2026-11-22). DALI, a
# model.py and a backend of the user's own may add to what is listed.
_COMPLETES_EMPTY_SIDES = frozenset({"onnxruntime", "openvino", "tensorrt"})
_MAX_MODEL_PY = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """The backend of a model.

    Attributes:
        name: The backend's name; "" if it is unknown, and for an ensemble.
        platform: The platform, as given or as it follows from the backend; may be "".
        filename: The file it opens in a version folder, as given or by default; may be "".
    """

    name: str = ""
    platform: str = ""
    filename: str = ""

    def completes(self, layout: Layout, path: str) -> bool:
        """Return whether it may fill in inputs and outputs that a configuration leaves out."""
        if self.name in _COMPLETES_NOTHING or self.platform == "ensemble":
            return False
        if self.name != "python":
            return True
        sources = [posixpath.join(path, folder, self.filename) for folder in layout.children(path)]
        contents = [layout.beginning(p, _MAX_MODEL_PY) for p in sources if p in layout.files]
        return any(content is None or _PYTHON_COMPLETES in content for content in contents)

    @property
    def adds_tensors(self) -> bool:
        """Return whether a backend that completes configurations may add to the listed inputs or outputs."""
        return self.name not in _COMPLETES_EMPTY_SIDES


def backend_of(config: ModelConfig, *, folder: str, path: str, layout: Layout) -> Backend:
    """The backend of a model.

    Args:
        config: Its configuration.
        folder: Its directory's name.
        path: Its directory in the layout.
        layout: The content around it.
    """
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
        # The narrowest case: the model's name contains its backend, such as "model.identity".
        name = folder.partition(".")[2]
        filename = f"model.{name}"
    return Backend(name=name, platform=platform, filename=filename or _default_file(name))


def _default_file(name: str) -> str:
    """The one file that core names for a backend; "" if it leaves that to the backend."""
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
    """The backend, by the platform, the file's name or the file; "" if it is unknown."""
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
    """Return whether the first folder of a model, by name, has a "file" or a "folder" of that name."""
    folders = layout.children(path)
    if not folders:
        return ""
    found = posixpath.join(path, folders[0], name)
    return "file" if found in layout.files else "folder" if found in layout.directories else ""
