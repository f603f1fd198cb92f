"""What the Python backend refuses in a model's code.

src/pb_stub.cc of python_backend, r24.03 to r26.05, read 2026-11-28: Initialize() imports the file, calls
TritonPythonModel() and, if there is one, initialize(args); each request calls execute(requests). Code that
decides at run time what its module or class has is not judged.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .python_syntax import parse  # noqa: TID252
from .refusal import Refusal  # noqa: TID252  also found outside this repository

MODULE, CLASS = "model.py", "TritonPythonModel"

# The arguments with which the backend calls each method, with the class or the instance.
_CALLED = {"__new__": 1, "__init__": 1, "initialize": 2, "execute": 2}
_SIGNATURES = {"__new__": "cls", "__init__": "self", "initialize": "self, args", "execute": "self, requests"}
_BINDING_AT_RUN_TIME = frozenset({"__import__", "eval", "exec", "globals", "locals", "setattr", "vars"})
_HOOKS = frozenset({"__getattr__", "__getattribute__", "__dict__", "modules"})
_KINDS = frozenset({"classmethod", "staticmethod"})
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


def check_code(code: bytes, *, python: tuple[int, int]) -> list[Refusal]:
    """Return what the backend refuses in code that the image's Python runs."""
    try:
        tree = parse(code, python)
    except (SyntaxError, ValueError) as error:  # ValueError: a null byte
        line, message = getattr(error, "lineno", None), getattr(error, "msg", str(error))
        fix = f"correct it, and try it: python{python[0]}.{python[1]} -m py_compile {MODULE}"
        at = f"line {line}" if line else ""
        return [Refusal(message=message, what=f"{MODULE} is not valid Python: {message}", at=at, fix=fix)]
    except (MemoryError, RecursionError):  # nested too deep for this process
        return []
    return list(_check_class(tree))


def _check_class(tree: ast.Module) -> Iterator[Refusal]:
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
    if definition.decorator_list or definition.keywords or is_open:
        return
    members: dict[str, list[ast.AST]] = {}
    for node in _scope(definition):
        for name in _names(node):
            members.setdefault(name, []).append(node)
    plain = all(isinstance(base, ast.Name) and base.id == "object" for base in definition.bases)
    loaded = any(isinstance(node, ast.Name) and node.id == CLASS for node in _scope(tree))
    if plain and not loaded and "execute" not in {*members, *stored}:
        yield Refusal(
            message="does not implement `execute` method.",
            what=f"{CLASS} has no method execute",
            at=f"line {definition.lineno}",
            fix="write execute(self, requests), which returns a response for each request",
        )
    for name, count in _CALLED.items():
        functions = members.get(name, [])
        if len(functions) != 1 or name in stored or not isinstance(functions[0], _Function):
            continue
        if not _takes(functions[0], count):
            yield Refusal(
                message=f"{CLASS}.{name}()",
                what=f"{name}({ast.unparse(functions[0].args)}) does not take the backend's arguments",
                at=f"line {functions[0].lineno}",
                fix=f"write {name}({_SIGNATURES[name]})",
            )


def _takes(function: ast.FunctionDef | ast.AsyncFunctionDef, count: int) -> bool:
    """Return whether a method can be called with so many arguments; True if a decorator decides."""
    kinds = [each.id for each in function.decorator_list if isinstance(each, ast.Name) and each.id in _KINDS]
    if len(kinds) != len(function.decorator_list) or (kinds and function.name == "__new__"):
        return True
    count -= kinds == ["staticmethod"]
    arguments = function.args
    most = len(arguments.posonlyargs) + len(arguments.args)
    enough = most - len(arguments.defaults) <= count and None not in arguments.kw_defaults
    return enough and (arguments.vararg is not None or count <= most)


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
