"""The source of a declaration's code shows if it compiles plans, and for which GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from triton_models.declare.searched import written_plans


@pytest.mark.parametrize(
    ("text", "plans"),
    [
        ("# no model.plan is made, and compile_plan is not called", set()),
        ("def write(job): job.compile_plan(path, shapes={})", {"this-gpu"}),
        ("def write(job): job.compile_plan(path, shapes={}, hardware='ampere+')", {"ampere+"}),
        ("job.compile_plan(a, hardware='ampere+')\njob.compile_plan(b)", {"ampere+", "this-gpu"}),
        ("job.compile_plan(a, hardware='ampere')", {"this-gpu"}),
        ("job.compile_plan(a, **options)", {"this-gpu"}),
        ("compile = partial(job.compile_plan, hardware='ampere+')", {"this-gpu"}),
        ("shutil.copy(source / 'model.plan', version)", {"this-gpu"}),
        ("from weights import model.plan", {"this-gpu"}),  # no Python
    ],
)
def test_the_hardware_of_plans_is_read_from_the_code_that_makes_them(
    text: str, plans: set[str], tmp_path: Path
) -> None:
    (tmp_path / "build.py").write_text(text)

    assert written_plans(tmp_path) == plans


def test_every_file_of_the_folder_counts(tmp_path: Path) -> None:
    (tmp_path / "build.py").write_text("from .compiling import write")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "compiling.py").write_text("def write(job): job.compile_plan(path)")

    assert written_plans(tmp_path) == {"this-gpu"}


def test_a_plan_that_lies_in_the_folder_counts_and_prose_about_plans_does_not(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("compile_plan makes model.plan")
    assert written_plans(tmp_path) == set()

    (tmp_path / "model.plan").touch()
    assert written_plans(tmp_path) == {"this-gpu"}
