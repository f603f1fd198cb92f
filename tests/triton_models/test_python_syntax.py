"""Code for a newer Python is read by its grammar, whatever Python checks it.

The expected values are those of compile() in Python 3.12.1 and 3.13.0.
"""

from __future__ import annotations

import pytest

from triton_models.check.backend_rules.python_code import check_code

CODE = "class TritonPythonModel:\n    def execute(self, requests):\n        {}\n        return []\n"

VALID = [
    *(
        'f"{x["a"]}"',
        'f"{"a" + f"{x!r:>{w}}"}" "b"',
        "f\"{'\\n'.join(x)}\"",
        'f"{x:{y}{z["a"]}}"',
        'f"{x = !r}"',
    ),
    *(
        'f"{\n        x  # the name\n        }"',
        'rf"\\{x["a"]}"',
        'f"\\N{BULLET} {"a"}"',
        'f"{{{"a"}}}"',
        'f"{x!=""}"',
    ),
    *(
        "def f[T: list[int]](a): pass",
        "class A[T]: pass",
        "type X[T] = list[T]",
        "x[*y]",
        "def f(*a: *Ts): pass",
    ),
    *("def f[T: dict[str, list[int]] | None](x): pass", "a = 1; type Y = int", "if x: type Y[T] = int"),
    *(
        "class A[T: dict[str, list[tuple[list[int]]]]](B): pass",
        "def f[*A, **P, T: (int, str)](): pass",
        'def f[T: "A"](): return b"x" b"y"',
        "x = 1  # class scores [N, C]",
        '"class scores [N, C]"; type = 1; type[0]',
    ),
    "try:\n            pass\n        except* ValueError:\n            pass",
]
INVALID = [
    *(
        'raise ValueError(f"bad {x}"',
        'print(f"{x}"))',
        'f"{x"',
        'f"{}"',
        'f"{x}}"',
        'if x print(f"{x}")',
        'f"{x y}"',
    ),
    *('f"{a) + (b}"', 'f"{x!z}"', 'f"{x:', 'print("a" f"{"b"}" x)', 'f"{"a"', 'f"{lambda x: 1}"', 'bf"{x}"'),
    *("x[*]", "x = [2*y] if", "f(x)[2*x] = = 3", "type X"),
    *(
        "x = (1  # class scores [batch, classes]",
        "# the data type dtype = FP32\n        print('a'",
        '"class probabilities [N, C]"; if 1 == 1 print(1)',
        "def f[T](x: T) -> T: return x; y = (1",
        "class scores [N, C]",
        "class scores [0..9]: pass",
        "the data type dtype = FP32",
        "def f[T: list[int](x): pass",
        "def f[](x): pass",
        "type X[T] == 3",
    ),
]


@pytest.mark.parametrize("code", VALID)
def test_newer_syntax_is_accepted(code):
    assert check_code(CODE.format("pass").replace("pass", code).encode(), python=(3, 13)) == []


@pytest.mark.parametrize("code", INVALID)
def test_what_no_python_reads_is_refused_beside_newer_syntax(code):
    (refusal,) = check_code(CODE.format("pass").replace("pass", code).encode(), python=(3, 13))
    assert "is not valid Python" in refusal.what
    assert refusal.at.startswith("line ")


def test_the_class_is_checked_in_code_with_newer_syntax():
    code = 'class Model:\n    def execute(self, requests):\n        return f"{requests["a"]}"\n'
    (refusal,) = check_code(code.encode(), python=(3, 12))
    assert refusal.what == "no class TritonPythonModel, only Model"
