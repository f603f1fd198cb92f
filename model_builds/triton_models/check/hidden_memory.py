"""GPU memory of Python models that none of their files shows, such as weights from a hub or from the image.

The code is read and never run. Each instance is a process of its own, so nothing that it allocates on a GPU
is known to the server: StubLauncher::Launch in src/stub_launcher.cc of python_backend (r25.09).
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress

from triton_models.artifact.layout import Layout
from triton_models.artifact.pbtxt import ModelConfig

_FRAMEWORKS_TEXT = """
accelerate auto_gptq bitsandbytes bentoml catboost clip ctranslate2 cucim cudf cugraph cuml cupy cupyx cuda
deepspeed detectron2 diffusers doctr easyocr exllamav2 fairseq fastai faster_whisper flair flash_attn gliner
haystack insightface jax keras keras_nlp kornia lightning llama_cpp mmcv mmdet mmengine mmpose mmseg mxnet
nemo nvidia onnxruntime onnxruntime_genai open_clip optimum paddle paddleocr peft pycuda pynvml
pytorch_lightning rmm segment_anything sentence_transformers sglang stanza super_gradients tensorflow
tensorflow_hub tensorrt tensorrt_llm tf_keras thinc timm torch torch2trt torch_geometric torch_tensorrt
torchaudio torchtext torchvision transformers trl triton TTS tvm ultralytics unsloth vllm whisper whisperx
xformers xtuner
"""
_FRAMEWORKS = frozenset(_FRAMEWORKS_TEXT.split())
"""Packages that allocate memory of a GPU if there is one."""

_ON_THE_HOST_TEXT = """
aiohttp attr blosc boto3 botocore bs4 c_python_backend_utils cachetools cv2 dateutil decord einops emoji
ftfy google grpc httpx imageio jinja2 joblib jsonschema librosa lightgbm lxml msgpack nltk numpy
opentelemetry orjson pandas PIL polars prometheus_client psutil pyarrow pydantic pytz rapidfuzz redis regex
requests scipy sentencepiece shapely simplejson six skimage sklearn soundfile tiktoken tokenizers tqdm
triton_python_backend_utils tritonclient typing_extensions ujson unidecode urllib3 yaml zstandard
"""
_ON_THE_HOST = frozenset(_ON_THE_HOST_TEXT.split())
_WITHOUT_WEIGHTS = re.compile(r"\w*(?:Tokenizer|Processor|FeatureExtractor|Config)(?:Fast)?")
_PROCESSES = frozenset({"subprocess", "pexpect", "sh"})
_STARTS = re.compile(r"os\.(system|popen|exec\w+|spawn\w+|posix_spawn)|asyncio\.create_subprocess_\w+")
_CUDA = re.compile(r"cuda|device_map", re.IGNORECASE)

_LOADERS = re.compile(
    r"from_\w+|pipeline|hf_hub_download|snapshot_download|load(_\w+)?|SentenceTransformer|CrossEncoder|LLM|"
    r"create_model|get_model|InferenceSession|WhisperModel|YOLO|Llama|\w*[Dd]ownload\w*|urlretrieve"
)
_NO_LOADERS = re.compile(
    r"(json|yaml|toml|np|numpy|orjson|tomllib)\.\w+|.*\.from_(numpy|dlpack|buffer|array|iterable|bytes)|"
    r"\w*(Tokenizer\w*|Processor|FeatureExtractor|Config)\.from_pretrained|.*\.load_state_dict"
)
_OWN_FOLDER = frozenset({"model_repository", "__file__", "get_model_dir"})
_NO_WEIGHTS_TEXT = ".py .pyc .json .txt .pbtxt .md .yaml .yml .model .vocab .csv .gz"
_NO_WEIGHTS = tuple(_NO_WEIGHTS_TEXT.split())
_LONGEST_NAME = 40
_ADAPTER = "adapter_config.json"
_LEAST_WEIGHTS = 1 << 20
_LARGEST = 1 << 20


def hidden_memory(layout: Layout, folder: str, config: ModelConfig) -> str | None:
    """Return why no file shows the memory of a GPU that a Python model allocates; None if the files do.

    The folder is the model's directory in the artifact, with a slash at the end, or "".
    """
    code, groups = _Code(_trees(layout, folder)), config.instance_group
    if groups and all(group.kind == group.KIND_CPU for group in groups) and not code.ignores_kind:
        return None
    names = {path.rpartition("/")[2] for path in (*layout.files, *layout.directories)}
    explicit = any(group.kind == group.KIND_GPU for group in groups)
    runs = code.allocating({name.removesuffix(".py") for name in names}, unlisted=explicit)
    if runs is None or (not code.loads_elsewhere and _has_weights(layout, folder)):
        return None
    return f"its code runs {runs[:60]} on a GPU, and what that loads is not in its files"


def _own_files(layout: Layout, folder: str) -> Iterator[str]:
    """Yield the files of a model, without those of its environment."""
    return (path for path in layout.files if path.startswith(folder) and "site-packages/" not in path)


def _trees(layout: Layout, folder: str) -> Iterator[ast.AST]:
    """Yield the code of a model; what cannot be parsed does not run."""
    code = [path for path in _own_files(layout, folder) if path.endswith(".py")]
    for text in layout.contents(code, _LARGEST).values():
        with suppress(SyntaxError, ValueError, RecursionError):
            yield ast.parse(text)


def _has_weights(layout: Layout, folder: str) -> bool:
    """Return whether a model's files have weights, which its memory can be estimated from."""
    is_adapter = any(path.endswith(_ADAPTER) for path in layout.files)  # of a model that is elsewhere
    weights = (
        path
        for path in _own_files(layout, folder)
        if not (path.endswith(_NO_WEIGHTS) or (is_adapter and "adapter_model" in path))
    )
    return sum(layout.files[path] for path in weights) >= _LEAST_WEIGHTS


class _Code:
    """What the code of a model imports, names and loads."""

    def __init__(self, trees: Iterator[ast.AST]) -> None:
        self._nodes = [node for tree in trees for node in _walk(tree)]
        texts = {node.value for node in self._nodes if isinstance(node, ast.Constant)}
        self._texts = {text for text in texts if isinstance(text, str)}
        named = {node.attr for node in self._nodes if isinstance(node, ast.Attribute)}
        named |= {node.arg or "" for node in self._nodes if isinstance(node, ast.keyword)}
        named |= {text for text in self._texts if len(text) < _LONGEST_NAME}
        self._names_own_folder = bool(_OWN_FOLDER & ({*map(_last, self._nodes)} | self._texts))
        self._names_cuda = any(_CUDA.search(name) for name in named - {"CUDA_VISIBLE_DEVICES"})

    @property
    def ignores_kind(self) -> bool:
        """Whether it names a GPU and does not look at the kind of its instance."""
        return self._names_cuda and "model_instance_kind" not in self._texts

    def allocating(self, own: Collection[str], *, unlisted: bool) -> str | None:
        """Return what allocates memory of a GPU: a framework, a program, or a package that is not listed."""
        packages = set(self._packages())
        if "CPUExecutionProvider" in self._texts and not self._names_cuda:
            packages.discard("onnxruntime")
        if packages & _FRAMEWORKS:
            return min(packages & _FRAMEWORKS)
        if packages & _PROCESSES or any(_STARTS.fullmatch(_name(call)) for call in self._calls()):
            return "a program"
        others = packages - _ON_THE_HOST - set(sys.stdlib_module_names) - set(own)
        if others and unlisted:
            return min(others)
        return "code" if self._names_cuda and {"ctypes", "cffi", "numba"} & packages else None

    def _packages(self) -> Iterator[str]:
        for node in self._nodes:
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                package = node.module.partition(".")[0]
                if package != "transformers" or not all(
                    _WITHOUT_WEIGHTS.fullmatch(alias.name) for alias in node.names
                ):
                    yield package
            elif isinstance(node, ast.Call) and _name(node).endswith(("import_module", "__import__")):
                name = node.args[0] if node.args else None
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    yield name.value.partition(".")[0]
                else:
                    yield "a module named at run time"

    def _calls(self) -> Iterator[ast.Call]:
        return (node for node in self._nodes if isinstance(node, ast.Call))

    @property
    def loads_elsewhere(self) -> bool:
        """Whether it loads from anything but its own folder: each path comes from the arguments of Triton."""
        if not self._names_own_folder:
            return True
        own = self._from_own_folder()
        loads = [call for call in self._calls() if _is_load(_name(call))]
        return any(not _names_in(*_arguments(call)) & own for call in loads) or any(
            _pretrained(call) for call in self._calls()
        )

    def _from_own_folder(self) -> set[str]:
        """Return the names whose values come from the model's own folder, through any number of steps."""
        flows = [(_names_in(value), names) for value, names in self._flows()]
        own, count = set(_OWN_FOLDER), -1
        while len(own) != count:
            count = len(own)
            for sources, names in flows:
                if sources & own:
                    own.update(names)
        return own

    def _flows(self) -> Iterator[tuple[ast.AST, list[str]]]:
        """Yield each value with the names that get it: variables, parameters and functions that return it."""
        parameters: dict[str, list[str]] = {}
        for function in (node for node in self._nodes if isinstance(node, ast.FunctionDef)):
            parameters.setdefault(function.name, []).extend(arg.arg for arg in function.args.args)
            for node in ast.walk(function):
                if isinstance(node, ast.Return) and node.value:
                    yield node.value, [function.name]
        for node in self._nodes:
            if isinstance(node, ast.Assign):
                yield node.value, [name for target in node.targets for name in _targets(target)]
            elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value:
                yield node.value, _targets(node.target)
            elif isinstance(node, ast.withitem) and node.optional_vars:
                yield node.context_expr, _targets(node.optional_vars)
            elif isinstance(node, ast.For | ast.comprehension):
                yield node.iter, _targets(node.target)
            elif isinstance(node, ast.Call) and (names := parameters.get(_name(node).rpartition(".")[2])):
                yield from ((value, [name for name in names if name != "self"]) for value in _arguments(node))


def _walk(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes but those that only type checkers read."""
    coming = [tree]
    while coming:
        node = coming.pop()
        if not (isinstance(node, ast.If) and _last(node.test) == "TYPE_CHECKING"):
            yield node
            coming += ast.iter_child_nodes(node)


def _last(node: ast.AST) -> str:
    """Return the last part of a name."""
    return getattr(node, "id", "") or getattr(node, "attr", "")


def _dotted(node: ast.AST) -> str:
    """Return a dotted name; "" of anything else."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _name(call: ast.Call) -> str:
    """Return the dotted name of what is called; only its last part of a method of another value."""
    return _dotted(call.func) or _last(call.func)


def _arguments(call: ast.Call) -> list[ast.AST]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _targets(node: ast.AST) -> list[str]:
    nodes = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    return [name for name in map(_dotted, nodes) if name]


def _names_in(*values: ast.AST) -> set[str]:
    """Return the dotted names in values, the functions that they call, and what names the own folder."""
    names = set[str]()
    for node in (node for value in values for node in ast.walk(value)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            names |= {node.value} & _OWN_FOLDER
        elif isinstance(node, ast.Name | ast.Attribute):
            names |= {_dotted(node)} | ({_last(node)} & _OWN_FOLDER)
        elif isinstance(node, ast.Call):
            names.add(_name(node).rpartition(".")[2])
    return names - {""}


def _is_load(name: str) -> bool:
    if name.startswith("subprocess.") or _STARTS.fullmatch(name):
        return True
    return bool(_LOADERS.fullmatch(name.rpartition(".")[2])) and not _NO_LOADERS.fullmatch(name)


def _pretrained(call: ast.Call) -> bool:
    """Return whether a call asks for published weights, as torchvision and timm have them."""
    values = [keyword.value for keyword in call.keywords if keyword.arg in {"weights", "pretrained"}]
    constants = [value.value for value in values if isinstance(value, ast.Constant)]
    is_named = any(value is True or isinstance(value, str) for value in constants)
    return is_named or any("Weights" in _dotted(value) for value in values)
