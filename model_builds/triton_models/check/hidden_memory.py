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
_NO_WEIGHTS = (".py", ".pyc", ".json", ".txt", ".pbtxt", ".md", ".yaml", ".yml", ".model", ".vocab", ".csv")
_LONGEST_NAME = 40
_ADAPTER = "adapter_config.json"
_LEAST_WEIGHTS = 1 << 20
_LARGEST = 1 << 20


def hidden_memory(layout: Layout, folder: str, config: ModelConfig) -> str | None:
    """Return why no file shows the memory of a GPU that a Python model allocates; None if the files do.

    Args:
        layout: The artifact.
        folder: The model's directory in it, with a slash at the end, or "".
        config: The model's configuration.
    """
    code = _Code(_trees(layout, folder))
    groups = config.instance_group
    if groups and all(group.kind == group.KIND_CPU for group in groups) and not code.ignores_kind:
        return None
    own = {path.rpartition("/")[2].removesuffix(".py") for path in layout.files} | _folders(layout)
    explicit = any(group.kind == group.KIND_GPU for group in groups)
    runs = code.allocating(own, unlisted=explicit)
    if runs is None or (not code.loads_elsewhere and _has_weights(layout, folder)):
        return None
    return f"its code runs {runs[:60]} on a GPU, and what that loads is not in its files"


def _folders(layout: Layout) -> set[str]:
    return {path.rpartition("/")[2] for path in layout.directories}


def _trees(layout: Layout, folder: str) -> Iterator[ast.AST]:
    """Yield the code of a model, without that of its environment; what cannot be parsed does not run."""
    own = [
        path
        for path in layout.files
        if path.startswith(folder) and path.endswith(".py") and "site-packages/" not in path
    ]
    for text in layout.contents(own, _LARGEST).values():
        with suppress(SyntaxError, ValueError, RecursionError):
            yield ast.parse(text)


def _has_weights(layout: Layout, folder: str) -> bool:
    """Return whether a model's files have weights, which its memory can be estimated from."""
    sizes = {
        path: size
        for path, size in layout.files.items()
        if path.startswith(folder) and not path.endswith(_NO_WEIGHTS) and "site-packages/" not in path
    }
    if any(path.endswith(_ADAPTER) for path in layout.files):  # of a model that is elsewhere
        sizes = {path: size for path, size in sizes.items() if "adapter_model" not in path}
    return sum(sizes.values()) >= _LEAST_WEIGHTS


class _Code:
    """What the code of a model imports, names and loads."""

    def __init__(self, trees: Iterator[ast.AST]) -> None:
        self._nodes = [node for tree in trees for node in _walk(tree)]
        texts = {node.value for node in self._nodes if isinstance(node, ast.Constant)}
        self._texts = {text for text in texts if isinstance(text, str)}
        named = {node.attr for node in self._nodes if isinstance(node, ast.Attribute)}
        named |= {node.arg or "" for node in self._nodes if isinstance(node, ast.keyword)}
        named |= {text for text in self._texts if len(text) < _LONGEST_NAME}
        self._names_cuda = any(_CUDA.search(name) for name in named - {"CUDA_VISIBLE_DEVICES"})

    @property
    def ignores_kind(self) -> bool:
        """Whether it names a GPU and does not look at the kind of its instance."""
        return self._names_cuda and "model_instance_kind" not in self._texts

    def allocating(self, own: Collection[str], *, unlisted: bool) -> str | None:
        """Return what allocates memory of a GPU: a framework, a program, or a package that is not listed."""
        on_host_alone = "CPUExecutionProvider" in self._texts and not self._names_cuda
        packages = set(self._packages()) - ({"onnxruntime"} if on_host_alone else set())
        for name in sorted(packages):
            if name in _FRAMEWORKS:
                return name
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
        own = self._from_own_folder()
        loads = [call for call in self._calls() if _is_load(_name(call))]
        return any(
            not any(_mentions(value, own) for value in (*call.args, *(each.value for each in call.keywords)))
            for call in loads
        ) or any(_pretrained(call) for call in self._calls())

    def _from_own_folder(self) -> set[str]:
        """Return the names whose values come from the model's own folder, through any number of steps."""
        own, count = set(_OWN_FOLDER), -1
        while len(own) != count:
            count = len(own)
            for node in self._nodes:
                own.update(self._names_from(node, own))
        return own

    def _names_from(self, node: ast.AST, own: set[str]) -> Iterator[str]:
        if isinstance(node, ast.Assign) and _mentions(node.value, own):
            yield from (ast.unparse(target) for target in node.targets)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value and _mentions(node.value, own):
            yield ast.unparse(node.target)
        elif isinstance(node, ast.withitem) and node.optional_vars and _mentions(node.context_expr, own):
            yield ast.unparse(node.optional_vars)
        elif isinstance(node, ast.For | ast.comprehension) and _mentions(node.iter, own):
            yield ast.unparse(node.target)
        elif isinstance(node, ast.Return) and node.value and _mentions(node.value, own):
            yield from (
                each.name for each in self._functions() if any(child is node for child in ast.walk(each))
            )
        elif isinstance(node, ast.Call) and any(_mentions(value, own) for value in node.args):
            called = _name(node).rpartition(".")[2]
            for each in self._functions():
                if each.name == called:
                    yield from (arg.arg for arg in each.args.args if arg.arg != "self")

    def _functions(self) -> Iterator[ast.FunctionDef]:
        return (node for node in self._nodes if isinstance(node, ast.FunctionDef))


def _walk(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes but those that only type checkers read."""
    if isinstance(tree, ast.If) and "TYPE_CHECKING" in ast.unparse(tree.test):
        return
    yield tree
    for child in ast.iter_child_nodes(tree):
        yield from _walk(child)


def _name(call: ast.Call) -> str:
    """Return the dotted name of what is called; "" of a call of a call."""
    return ast.unparse(call.func) if isinstance(call.func, ast.Name | ast.Attribute) else ""


def _is_load(name: str) -> bool:
    return bool(_LOADERS.fullmatch(name.rpartition(".")[2])) and not _NO_LOADERS.fullmatch(name)


def _pretrained(call: ast.Call) -> bool:
    """Return whether a call asks for published weights, as torchvision and timm have them."""
    asked = [each.value for each in call.keywords if each.arg in {"weights", "pretrained"}]
    return any(
        (isinstance(value, ast.Constant) and (value.value is True or isinstance(value.value, str)))
        or (isinstance(value, ast.Attribute) and "Weights" in ast.unparse(value))
        for value in asked
    )


def _mentions(node: ast.AST, names: Collection[str]) -> bool:
    return any(
        (isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value in _OWN_FOLDER)
        or (isinstance(each, ast.Name | ast.Attribute) and ast.unparse(each) in names)
        or (isinstance(each, ast.Attribute) and each.attr in _OWN_FOLDER)
        or (isinstance(each, ast.Call) and _name(each).rpartition(".")[2] in names)
        for each in ast.walk(node)
    )
