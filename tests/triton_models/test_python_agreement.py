"""The real Python backend refuses parameters and code that `fleet check` refuses, in the same words."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import pytest

from tests.triton_models.model_folders import Edit, write
from tests.triton_models.plain_server import COMPILER, PlainServer
from triton_models.artifact.pbtxt import as_json, plain, read_config, tensor, write_config
from triton_models.check.backend_rules.python import environment_of, refusals
from triton_models.check.backend_rules.python_code import check_code
from triton_models.check.check import check_path
from triton_models.check.target import PLAIN

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler, for a backend without weights")

HEADER = "import triton_python_backend_utils as pb_utils\n"
METHOD = """
    def execute(self, requests):
        rows = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", row)]) for row in rows]
"""
CODE = f"{HEADER}class TritonPythonModel:{METHOD}".encode()
REQUEST = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}
numbers = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[PlainServer]:
    with PlainServer(tmp_path_factory.mktemp("python"), auto_complete=False) as server:
        yield server


@pytest.fixture(scope="module")
def completing(tmp_path_factory) -> Iterator[PlainServer]:
    with PlainServer(tmp_path_factory.mktemp("completing"), auto_complete=True) as server:
        yield server


def _model(server: PlainServer, parameters: dict[str, str], code: bytes = CODE) -> str:
    name = f"m{next(numbers)}"
    inputs, outputs = [tensor("x", "FP32", [1])], [tensor("y", "FP32", [1])]
    directory = server.repository / name
    made = plain(
        name=name, backend="python", max_batch_size=0, inputs=inputs, outputs=outputs, kind="KIND_CPU"
    )
    write_config(made, directory / "config.pbtxt")
    write(directory / "1/model.py", code)
    with Edit(directory) as config:
        for key, value in parameters.items():
            config.parameters[key].string_value = value
    return name


@pytest.mark.parametrize(
    "parameters",
    [
        {"EXECUTION_ENV_PATH": "environment.tar.gz"},
        {"EXECUTION_ENV_PATH": "./environment"},
        {"EXECUTION_ENV_PATH": "$TRITON_MODEL_DIRECTORY/environment"},
        {"EXECUTION_ENV_PATH": "$$TRITON_MODEL_DIRECTORYenvironment"},
        {"EXECUTION_ENV_PATH": "/opt/no/environment"},
        {"FORCE_CPU_ONLY_INPUT_TENSORS": "Yes"},
    ],
    ids=str,
)
def test_what_is_refused_does_not_load(parameters, server):
    name = _model(server, parameters)
    loaded, message = server.load(name)
    directory = server.repository / name
    assert not loaded
    config = as_json(read_config(directory / "config.pbtxt"))
    path = environment_of(config, str(directory))
    words = [refusal.message for refusal in refusals(config) if "canonical" not in refusal.message]
    assert (words or [f"Failed to get the canonical path for {path}."])[0] in message
    # On a server of one's own, an absolute path may exist.
    assert check_path(directory, target=PLAIN) or parameters["EXECUTION_ENV_PATH"].startswith("/")


@pytest.mark.parametrize(
    "parameters",
    [{"EXECUTION_ENV_PATH": ""}, {"FORCE_CPU_ONLY_INPUT_TENSORS": "no"}, {"shm-default-byte-size": "many"}],
    ids=str,
)
def test_what_is_accepted_loads(parameters, server):
    name = _model(server, parameters)
    assert server.load(name) == (True, "")
    assert check_path(server.repository / name, target=PLAIN) == []


def _with(method: str) -> bytes:
    return CODE + f"\n    {method}\n".encode()


def _without(old: str, new: str = "") -> bytes:
    return CODE.decode().replace(old, new).encode()


BROKEN = {
    "a colon is missing": _without("Model:", "Model"),
    "code of Python 2": CODE + b"\nprint 'x'\n",
    "a byte of another encoding": CODE + b"x = 'caf\xe9'\n",
    "an unknown encoding": b"# -*- coding: none -*-\n" + CODE,
    "a null byte": CODE + b"\0",
    "a return outside a function": CODE + b"\nreturn 1\n",
    "an empty file": b"",
    "a class of another name": _without("TritonPythonModel", "Model"),
    "a class inside a function": CODE.replace(b"class", b"def f():\n  class").replace(b"    ", b"      "),
    "no execute": _without("execute", "run"),
    "execute at the module's level": _without(METHOD, " pass" + METHOD.replace("\n    ", "\n")),
    "execute without the requests": _without("(self, requests)", "(self)"),
    "execute with two more": _without("(self, requests)", "(self, requests, more)"),
    "initialize without the argument": _with("def initialize(self): pass"),
    "a static initialize with two": _with("@staticmethod\n    def initialize(self, args): pass"),
    "initialize with a keyword": _with("def initialize(self, args, *, path): pass"),
    "a constructor with an argument": _with("def __init__(self, path): pass"),
    "a constructor without self": _with("def __init__(): pass"),
    "an own __new__ with an argument": _with("def __new__(cls, path): return object.__new__(cls)"),
}
LOADS = {
    "no execute",
    "execute at the module's level",
    "execute without the requests",
    "execute with two more",
}


@pytest.mark.parametrize("name", BROKEN)
def test_code_that_is_refused_does_not_load_or_answer(name, server):
    model = _model(server, {}, BROKEN[name])
    loaded, message = server.load(model)
    assert loaded == (name in LOADS), message
    if loaded:
        answered, message = server.infer(model, REQUEST)
        assert not answered
    (refusal,) = check_code(BROKEN[name], python=sys.version_info[:2])
    assert refusal.message in message
    (problem,) = check_path(server.repository / model, target=PLAIN)
    assert problem.rule == "python-code"
    assert problem.where.startswith(f"{server.repository / model}/1/model.py")


WORKING = {
    "a plain class": CODE,
    "a byte order mark": b"\xef\xbb\xbf" + CODE,
    "a declared encoding": b"# -*- coding: latin-1 -*-\n# caf\xe9\n" + CODE,
    "a class under another name": _without("class TritonPythonModel", "class Model")
    + b"\nTritonPythonModel = Model\n",
    "a class in a condition": f"{HEADER}if True:\n  class TritonPythonModel:{METHOD}".encode(),
    "a class of a function": _without("class", "def made():\n  class").replace(b"    ", b"      ")
    + b"\n  return TritonPythonModel\nTritonPythonModel = made()\n",
    "a function that returns an instance": _without("TritonPythonModel", "Model")
    + b"\ndef TritonPythonModel(): return Model()\n",
    "a name among the globals": _without("TritonPythonModel", "Model")
    + b"\nglobals()['Triton' + 'PythonModel'] = Model\n",
    "an inherited method": _without("TritonPythonModel", "Model")
    + b"\nclass TritonPythonModel(Model): pass\n",
    "a method added later": _without("execute", "run")
    + b"\nTritonPythonModel.execute = TritonPythonModel.run\n",
    "a method of the instance": _without("execute", "run")
    + b"\n    def initialize(self, args): self.execute = self.run\n",
    "a method under another name": _without("execute", "run") + b"\n    execute = run\n",
    "a method that a decorator adds": b"def adds(it):\n  it.execute = it.run\n  return it\n@adds\n"
    + _without("execute", "run").replace(HEADER.encode(), b"")
    + b"\n"
    + HEADER.encode(),
    "any method": _without("execute", "run")
    + b"\n    def __getattr__(self, name): return getattr(self, {'execute': 'run'}[name])\n",
    "any arguments": _with("def initialize(self, *args): pass"),
    "more arguments with values": _with("def initialize(self, args, path='x', *, count=1): pass"),
    "a static method": _with("@staticmethod\n    def initialize(args): pass"),
    "a class method": _with("@classmethod\n    def initialize(cls, args): pass"),
    "a constructor": _with("def __init__(self): pass"),
    "a lambda": _with("initialize = lambda self, args: None"),
    "two definitions": _with("def initialize(self): pass\n    def initialize(self, args): pass"),
    "an asynchronous method": _without("def execute", "async def execute"),
}


@pytest.mark.parametrize("name", WORKING)
def test_code_that_is_accepted_loads_and_answers(name, server):
    model = _model(server, {}, WORKING[name])
    assert server.load(model) == (True, "")
    answered, message = server.infer(model, REQUEST)
    assert answered, message
    assert check_path(server.repository / model, target=PLAIN) == []


ABSTRACT = CODE.replace(b"Model:", b"Model(abc.ABC):").replace(b"import", b"import abc\nimport", 1)
BASE = ABSTRACT.replace(b"class TritonPythonModel", b"class Base")
BASE += b"""
    @abc.abstractmethod
    def RUN(self): ...
class TritonPythonModel(Base):
    def walk(self): ...
"""
FAILING = {
    "a method": _with("def auto_complete_config(self, config): return config"),
    "no argument": _with("@staticmethod\n    def auto_complete_config(): return None"),
    "a class method without one": _with("@classmethod\n    def auto_complete_config(cls): return cls"),
    "a keyword": _with("@staticmethod\n    def auto_complete_config(config, *, rows): return config"),
    "no return": _with("@staticmethod\n    def auto_complete_config(c): c.set_max_batch_size(0)"),
    "nothing": _with("@staticmethod\n    def auto_complete_config(config): pass"),
    "an empty return": _with("@staticmethod\n    def auto_complete_config(config): return"),
    "the return of a function": _with("def auto_complete_config(config):\n        def f(): return 1"),
    "a generator": _with(
        "@staticmethod\n    def auto_complete_config(c):\n        yield c\n        return c"
    ),
    "a coroutine": _with("@staticmethod\n    async def auto_complete_config(c): return c"),
    "an abstract class": ABSTRACT + b"\n    @abc.abstractmethod\n    def run(self): ...\n",
    "an abstract base": BASE.replace(b"RUN", b"run"),
}


@pytest.mark.parametrize("name", FAILING)
def test_code_that_completes_no_configuration_does_not_load(name, completing, server):
    model = _model(completing, {}, FAILING[name])
    loaded, message = completing.load(model)
    assert not loaded
    (refusal,) = check_code(FAILING[name], python=sys.version_info[:2], completes=True)
    assert refusal.message in message
    (problem,) = check_path(completing.repository / model, target=PLAIN)
    assert problem.rule == "python-code"
    without = _model(server, {}, FAILING[name])
    assert server.load(without)[0] is ("abstract" not in name)
    assert (check_code(FAILING[name], python=sys.version_info[:2]) == []) is ("abstract" not in name)


COMPLETING = {
    "a static method": _with("@staticmethod\n    def auto_complete_config(config): return config"),
    "a class method": _with("@classmethod\n    def auto_complete_config(cls, config): return config"),
    "a function": _with("def auto_complete_config(config): return config"),
    "any arguments": _with("def auto_complete_config(*args): return args[0]"),
    "a lambda": _with("auto_complete_config = lambda config: config"),
    "another return": _with(
        "def auto_complete_config(config):\n        if not config: return None\n        return config"
    ),
    "an inherited one": CODE.replace(b"Model:", b"Model(Base):").replace(
        b"class", b"class Base:\n    def auto_complete_config(config): return config\nclass"
    ),
    "an abstract class with all methods": ABSTRACT,
    "an abstract base whose method it has": BASE.replace(b"RUN", b"walk"),
    "a mark without an abstract class": ABSTRACT.replace(b"(abc.ABC)", b"")
    + b"\n    @abc.abstractmethod\n    def run(self): ...\n",
}


@pytest.mark.parametrize("name", COMPLETING)
def test_code_that_returns_a_configuration_loads_and_answers(name, completing):
    model = _model(completing, {}, COMPLETING[name])
    assert completing.load(model) == (True, "")
    answered, message = completing.infer(model, REQUEST)
    assert answered, message
    assert check_path(completing.repository / model, target=PLAIN) == []


@pytest.mark.parametrize(
    "code",
    [
        b'PROMPT = f"""\nrows: {"\\n".join(ROWS)}\n"""',
        b'PROMPT = f"""\n{\n    ROWS  # of the request\n}\n"""',
        b"PROMPT = f'{ROWS['first']}'",
    ],
    ids=["a backslash", "a comment", "the same quotes"],
)
def test_f_strings_that_only_a_newer_python_reads_are_not_judged(code):
    assert check_code(CODE + b"\nROWS = {}\n" + code, python=(3, 14)) == []
