"""The Lambda functions: what is delivered, what they may do, and what the rule packs say of them."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_lambda as lambda_
from botocore.exceptions import ClientError

from triton_fleet.endpoint.functions import inline_function
from triton_fleet.endpoint.functions.code import endpoint_start
from triton_fleet.endpoint.functions.inline_function import RUNTIME, InlineFunction, function_code

SOURCES = sorted(
    each.stem
    for each in Path(str(inline_function.__file__)).with_name("code").glob("[!_]*.py")
    if "def handler(" in each.read_text()
)


def _create(stack: Stack, **arguments: Any) -> InlineFunction:
    return InlineFunction(stack, "Function", source="warm_up", description="Loads models", **arguments)


@pytest.mark.parametrize("source", SOURCES)
def test_a_file_is_complete_in_itself_and_needs_only_what_lambda_has(source: str, tmp_path: Path) -> None:
    imported = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(function_code(source)))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
        )
    }
    assert imported <= {*sys.stdlib_module_names, "boto3", "botocore"}

    (tmp_path / "index.py").write_text(function_code(source))  # as CloudFormation names it
    subprocess.run(
        [sys.executable, "-c", "import index; assert callable(index.handler)"], cwd=tmp_path, check=True
    )


def test_the_code_of_the_signals_and_of_the_function_that_reads_them_have_no_name_in_common() -> None:
    defined = [
        str(getattr(each, "name", "") or getattr(each, "id", ""))
        for node in ast.parse(function_code("model_signals")).body
        for each in (ast.walk(node) if isinstance(node, ast.Assign | ast.AnnAssign) else [node])
        if isinstance(each, ast.FunctionDef | ast.ClassDef)
        or (isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
    ]

    assert len(defined) > 40
    assert [name for name, times in Counter(defined).items() if times > 1] == []


def test_the_runtime_is_the_newest_python() -> None:
    versions = [
        tuple(int(part) for part in each.name.removeprefix("python").split("."))
        for each in lambda_.Runtime.ALL
        if each.name.startswith("python")
    ]

    assert RUNTIME.name == "python{}.{}".format(*max(versions))


def test_a_start_waits_for_permissions_that_take_effect_later() -> None:
    slept: list[float] = []

    def put() -> str:
        if len(slept) < 3:
            raise ClientError({"Error": {"Code": "AccessDenied"}}, "PutObject")
        return "done"

    assert endpoint_start._patiently(put, slept.append) == "done"
    assert sum(slept) < endpoint_start.REFUSED_S
