"""What the Python backend refuses in a model's code.

src/pb_stub.cc of python_backend, r24.03 to r26.05, read 2026-11-28: Initialize() imports the file, calls
TritonPythonModel() and, if there is one, initialize(args); each request calls execute(requests). A server
that completes configurations calls TritonPythonModel.auto_complete_config(config) before, if there is one,
and refuses the model unless it returns a configuration. Code that decides at run time what its module or
class has is not judged.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .python_syntax import parse  # noqa: TID252
from .refusal import Refusal  # noqa: TID252  also found outside this repository

MODULE, CLASS = "model.py", "TritonPythonModel"

_COMPLETES = "auto_complete_config"
# The arguments with which the backend calls each method, with the class or the instance.
_CALLED = {"__new__": 1, "__init__": 1, "initialize": 2, "execute": 2}
_CALLED_FIRST = {_COMPLETES: 2}
_SIGNATURES = {
    "__new__": "__new__(cls)",
    "__init__": "__init__(self)",
    "initialize": "initialize(self, args)",
    "execute": "execute(self, requests)",
    _COMPLETES: f"@staticmethod {_COMPLETES}(config)",
}
_BINDING_AT_RUN_TIME = frozenset({"__import__", "eval", "exec", "globals", "locals", "setattr", "vars"})
_HOOKS = frozenset({"__getattr__", "__getattribute__", "__dict__", "modules"})
_KINDS = frozenset({"classmethod", "staticmethod"})
_ABSTRACT = frozenset({"abc.abstractmethod", "abstractmethod"})
_ABSTRACT_BASES = frozenset({"abc.ABC", "ABC", "abc.ABCMeta", "ABCMeta"})
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


def check_code(code: bytes, *, python: tuple[int, int], completes: bool = False) -> list[Refusal]:
    """Return what the backend refuses in code that the image's Python runs, on a server that may complete."""
    try:
        tree = parse(code, python)
    except (SyntaxError, ValueError) as error:  # ValueError: a null byte
        line, message = getattr(error, "lineno", None), getattr(error, "msg", str(error))
        fix = f"correct it, and try it: python{python[0]}.{python[1]} -m py_compile {MODULE}"
        at = f"line {line}" if line else ""
        return [Refusal(message=message, what=f"{MODULE} is not valid Python: {message}", at=at, fix=fix)]
    except (MemoryError, RecursionError):  # nested too deep for this process
        return []
    return list(_check_class(tree, completes=completes))


def _check_class(tree: ast.Module, *, completes: bool) -> Iterator[Refusal]:
    binding = [node for node in _scope(tree) if CLASS in _names(node)]
    stored = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _stores(node)}
    is_open = any(map(_binds_at_run_time, ast.walk(tree)))
    if not binding and not is_open:
        others = [node.name for node in _scope(tree) if isinstance(node, ast.ClassDef)]
        yield Refusal(
            message=f"has no attribute '{CLASS}'",
            what=f"no class {CLASS}" + (f", only {', '.join(others)}" if others else ""),
            at="",
            fix=f"rename {others[0]} to {CLASS}" if len(others) == 1 else f"write a class {CLASS}",
        )
    definition = binding[0] if len(binding) == 1 else None
    if not isinstance(definition, ast.ClassDef):
        return
    if definition.decorator_list or is_open:
        return
    members = _members(definition)
    plain = not definition.keywords and all(ast.unparse(base) == "object" for base in definition.bases)
    loaded = any(isinstance(node, ast.Name) and node.id == CLASS for node in _scope(tree))
    if plain and not loaded and "execute" not in {*members, *stored}:
        yield Refusal(
            message="does not implement `execute` method.",
            what=f"{CLASS} has no method execute",
            at=f"line {definition.lineno}",
            fix="write execute(self, requests), which returns a response for each request",
        )
    if abstract := {} if "__abstractmethods__" in stored else _abstract(definition, tree):
        name, line = next(iter(abstract.items()))
        yield Refusal(
            message=f"Can't instantiate abstract class {CLASS}",
            what=f"{CLASS} has the abstract method {name}",
            at=f"line {line}",
            fix=f"write {name} in {CLASS}, without @abstractmethod",
        )
    called = {} if definition.keywords else {**_CALLED, **(_CALLED_FIRST if completes else {})}
    for name in [name for name in called if name not in stored]:
        functions = members.get(name, [])
        if len(functions) == 1 and isinstance(functions[0], _Function):
            yield from _check_method(functions[0], called[name])


def _members(definition: ast.ClassDef) -> dict[str, list[ast.AST]]:
    members: dict[str, list[ast.AST]] = {}
    for node in _scope(definition):
        for name in _names(node):
            members.setdefault(name, []).append(node)
    return members


def _abstract(definition: ast.ClassDef, tree: ast.Module) -> dict[str, int]:
    """Return the lines of methods that neither a class nor its bases in this file have; empty if unknown."""
    classes: dict[str, ast.ClassDef] = {}
    for node in _scope(tree):
        for name in _names(node):
            if name not in classes and isinstance(node, ast.ClassDef):
                classes[name] = node
    abstract, seen = dict[str, int](), set[str]()
    while True:
        members = _members(definition)
        for name, (function, *others) in members.items():
            marks = map(ast.unparse, getattr(function, "decorator_list", ()))
            if name not in seen and not others and not _ABSTRACT.isdisjoint(marks):
                abstract[name] = getattr(function, "lineno", 0)
        seen.update(members)
        bases = [ast.unparse(base) for base in definition.bases]
        kinds = {*bases, *(ast.unparse(keyword.value) for keyword in definition.keywords)}
        if not _ABSTRACT_BASES.isdisjoint(kinds):
            return abstract
        if len(bases) != 1 or bases[0] not in classes:
            return {}
        definition = classes.pop(bases[0])


def _check_method(function: ast.FunctionDef | ast.AsyncFunctionDef, count: int) -> Iterator[Refusal]:
    name, at = function.name, f"line {function.lineno}"
    kinds = [node.id for node in function.decorator_list if isinstance(node, ast.Name) and node.id in _KINDS]
    if len(kinds) != len(function.decorator_list) or (kinds and name == "__new__"):
        return  # a decorator decides
    # The instance comes before the arguments, or the class, for which the configuration is completed.
    has_first = kinds == ["classmethod"] if name == _COMPLETES else kinds != ["staticmethod"]
    if not _takes(function.args, count - (not has_first)):
        yield Refusal(
            message=f"{CLASS}.{name}()",
            what=f"{name}({ast.unparse(function.args)}) does not take the backend's arguments",
            at=at,
            fix=f"write {_SIGNATURES[name]}",
        )
    elif name == _COMPLETES and not _returns(function):
        yield Refusal(
            message="must return a valid pb.ModelConfig object.",
            what=f"{name}() never returns the configuration",
            at=at,
            fix=f"write it as a plain function that ends with: return {_last(function.args)}",
        )


def _takes(arguments: ast.arguments, count: int) -> bool:
    """Return whether a function can be called with so many arguments."""
    most = len(arguments.posonlyargs) + len(arguments.args)
    enough = most - len(arguments.defaults) <= count and None not in arguments.kw_defaults
    return enough and (arguments.vararg is not None or count <= most)


def _returns(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function may return what is neither None, nor a generator or coroutine."""
    nodes = list(_scope(function))
    values = [ast.unparse(node.value) for node in nodes if isinstance(node, ast.Return) and node.value]
    is_lazy = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes)
    return not (is_lazy or isinstance(function, ast.AsyncFunctionDef)) and any(
        value != "None" for value in values
    )


def _last(arguments: ast.arguments) -> str:
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    return names[-1] if names else "the configuration"


def _scope(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a module or class without those inside its functions and classes."""
    todo = list(ast.iter_child_nodes(node))
    while todo:
        child = todo.pop()
        yield child
        if not isinstance(child, (*_Function, ast.ClassDef, ast.Lambda)):
            todo += ast.iter_child_nodes(child)


def _names(node: ast.AST) -> list[str]:
    """Return the names that a node binds."""
    if isinstance(node, (*_Function, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    return [node.id] if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else []


def _stores(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store)


def _binds_at_run_time(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _BINDING_AT_RUN_TIME
    if isinstance(node, ast.alias):
        return node.name == "*"
    if isinstance(node, ast.Global):
        return CLASS in node.names
    name = getattr(node, "attr", "") or (node.name if isinstance(node, _Function) else "")
    return name in _HOOKS
