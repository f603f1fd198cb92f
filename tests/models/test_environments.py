"""Environments of Python models: refused declarations, and the place of each file."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from wheel_shelf import put_numpy, put_wheel

from tests.reported import refused, reported
from triton_fleet.builds.commands import ENVIRONMENT
from triton_models.artifact.environments.slim import make_environment
from triton_models.artifact.layout import read_layout
from triton_models.artifact.pbtxt import read_config
from triton_models.artifact.plans import is_portable
from triton_models.builds.build import build
from triton_models.check.check import check_path
from triton_models.spec import load_build

DECLARATION = """
from triton_models.spec import *

def step(name, source, target, environment):
    return PythonModel(
        name=name,
        code="code.py",
        inputs=[Tensor(source, "INT32", [1])],
        outputs=[Tensor(target, "INT32", [1])],
        max_batch_size=0,
        environment=environment,
    )

ENVIRONMENT = {environment}
BUILD = ModelDefinition(
    name="sums",
    description="made up",
    models={models},
    examples=list,
    reference=dict,
    output="y",
    tolerance=0,
)
"""
ONE = "[step('sums', 'x', 'y', ENVIRONMENT)]"
TWO = """[
    step("first", "x", "z", ENVIRONMENT),
    step("second", "z", "y", {second}),
    Ensemble(name="sums", steps=["first", "second"]),
]"""
SHARED = TWO.format(second="ENVIRONMENT")
WHEELS = 'Wheels(["numpy==2.2.6", "greeting==1.0"])'

Given = Callable[..., None]
Made = Callable[..., Path]
Contents = Iterable[tuple[str, bytes]]


@pytest.fixture
def given(models: Path) -> Given:
    """Declare the model `sums`, with an environment."""

    def declare(environment: str, declared: str = ONE) -> None:
        (models / "sums").mkdir(exist_ok=True)
        (models / "sums" / "code.py").write_text(
            "class TritonPythonModel:\n    def execute(self, requests): ...\n"
        )
        text = DECLARATION.replace("{environment}", environment).replace("{models}", declared)
        (models / "sums" / "build.py").write_text(text)

    return declare


@pytest.fixture
def make(models: Path, tmp_path: Path) -> Made:
    """Build it, for CPUs unless another thing is said."""

    def made(*, cpu: bool = True, release: str = "25.09") -> Path:
        return build("sums", output=tmp_path / "out", models=models, cpu=cpu, release=release)

    return made


@pytest.fixture
def stocked(shelf: Path) -> Path:
    """A shelf with a NumPy and a greeting."""
    put_numpy(shelf)
    put_wheel(shelf, "greeting", {"greeting.py": "DIGIT = 7\n"})
    return shelf


def path_of(model: Path) -> str | None:
    parameters = read_config(model / "config.pbtxt").parameters
    return parameters["EXECUTION_ENV_PATH"].string_value if "EXECUTION_ENV_PATH" in parameters else None


# What is declared


@pytest.mark.parametrize(
    ("environment", "what"),
    [
        ('Wheels(["numpy==2.2.6", "pandas"])', "the wheel 'pandas'"),
        ('Wheels(["numpy==2.2.6", "a_b==1", "A-B==2"])', "two wheels of a-b"),
        ('Wheels(["pandas==2.3.3"])', "an environment without NumPy"),
        ('Wheels({"25.09": ["numpy==2.2.6"]})', "wheels for '25.09'"),
        ('Wheels(["numpy==2.2.6"], without=["../bin"])', "the pattern '../bin'"),
        ('Wheels("numpy==2.2.6")', "Wheels.wheels is 'numpy==2.2.6' (str)"),
        ('PackedEnvironment("environment.zip")', "the packed environment 'environment.zip'"),
        ('["numpy==2.2.6"]', "PythonModel.environment is ['numpy==2.2.6'] (list)"),
    ],
)
def test_a_mistake_is_reported_when_the_declaration_is_read(
    environment: str, what: str, given: Given, models: Path
) -> None:
    given(environment)

    problem = refused(load_build, "sums", models)

    assert problem.what == what
    assert problem.rule == "bad-declaration"


def test_a_backend_that_names_another_environment_is_refused(given: Given, models: Path) -> None:
    given(WHEELS)
    path = models / "sums" / "build.py"
    backend = "max_batch_size=0, backend=PythonBackend(environment='/opt/env'),"
    path.write_text(path.read_text().replace("max_batch_size=0,", backend))

    problem = refused(load_build, "sums", models)

    assert problem.what == "'sums' has an environment, and its backend names another"


# What fits a release


@pytest.mark.story
@pytest.mark.parametrize(("release", "packages"), [("24.09", "one"), ("25.09", "two")])
def test_a_mapping_has_wheels_for_each_python(
    release: str, packages: str, given: Given, make: Made, stocked: Path
) -> None:
    put_numpy(stocked, version="1.26.4")
    put_wheel(stocked, "one", {"one.py": ""})
    put_wheel(stocked, "two", {"two.py": ""})
    given('Wheels({"3.10": ["numpy==1.26.4", "one==1.0"], "3.12": ["numpy==2.2.6", "two==1.0"]})')

    root = make(release=release)

    assert [path.stem for path in (root / "sums/environment").rglob("*.py")] == [packages]
    assert check_path(root) == []


def test_a_python_that_a_mapping_lacks_is_named_with_those_it_has(given: Given, make: Made) -> None:
    given('Wheels({"3.12": ["numpy==2.2.6"]})')

    problem = refused(make, release="24.09")

    assert problem.rule == "environment-python"
    assert problem.what == "no wheels for Python 3.10, only for 3.12"


def test_what_a_function_returns_is_checked_before_pip_is_asked(given: Given, make: Made) -> None:
    given('Wheels(lambda job: ["pandas"])')

    with reported("environment-wheels", "environment-wheels") as problems:
        make()

    assert {each.what for each in problems} == {"the wheel 'pandas'", "an environment without NumPy"}


# The files of an environment


def test_an_environment_is_made_in_a_build_job_lies_in_its_model_and_is_named_there(
    given: Given, make: Made, stocked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    wheels = WHEELS.removeprefix("Wheels(").removesuffix(")")
    given(f'Wheels(lambda job: {wheels} if not job.cpu and job.release.name == "25.09" else [])')

    root = make(cpu=False)

    assert path_of(root / "sums") == "$$TRITON_MODEL_DIRECTORY/environment"
    assert (root / "sums/environment/lib/python3.12/site-packages/greeting.py").is_file()
    record = json.loads((root / "build.json").read_text())
    assert record["sources"] == {"environment:sums": "numpy==2.2.6, greeting==1.0"}
    assert "left_out" not in record
    assert is_portable(read_layout(root)) is False
    assert check_path(root) == []


@pytest.mark.parametrize(
    ("second", "folder"), [("ENVIRONMENT", "../environment"), ('Wheels(["numpy==2.2.6"])', "environment")]
)
def test_steps_with_equal_environments_share_one_beside_them_and_others_have_their_own(
    second: str, folder: str, given: Given, make: Made, stocked: Path
) -> None:
    given(WHEELS, TWO.format(second=second))

    root = make()

    for name in ("first", "second"):
        assert path_of(root / name) == f"$$TRITON_MODEL_DIRECTORY/{folder}"
    places = {str(path.parent.relative_to(root)) for path in root.rglob("environment")}
    assert places == ({"."} if ".." in folder else {"first", "second"})
    assert len(list(root.rglob("greeting.py"))) == 1
    assert check_path(root) == []


def test_a_model_that_is_called_environment_keeps_its_folder(given: Given, make: Made, stocked: Path) -> None:
    given(WHEELS, SHARED.replace('"first"', '"environment"'))

    root = make()

    assert path_of(root / "second") == "$$TRITON_MODEL_DIRECTORY/../environment-2"
    assert check_path(root) == []


def test_a_wheel_that_no_index_has_fails_the_build_with_pips_words(
    given: Given, make: Made, stocked: Path
) -> None:
    given('Wheels(["numpy==2.2.6", "absent==1.0"])')

    problem = refused(make)

    assert problem.rule == "environment-wheels"
    assert "No matching distribution found for absent==1.0" in problem.what


REQUIRES = ["Bases>=2", "old; python_version < '3.12'", "new; python_version >= '3.12'", "plot; extra == 'p'"]


@pytest.fixture
def requiring(stocked: Path) -> Path:
    """A shelf with a wheel that requires others, one of which requires another."""
    put_wheel(stocked, "learner", {"learner.py": ""}, requires=[*REQUIRES, "numpy[typed]<3"])
    put_numpy(stocked, requires=["hints; extra == 'typed'"])
    put_wheel(stocked, "bases", {}, version="1.5")
    put_wheel(stocked, "bases", {}, version="2.5", requires=["deeper"])
    for name in ("new", "old", "hints", "deeper"):
        put_wheel(stocked, name, {})
    return stocked


def test_wheels_that_lack_what_they_require_are_refused_with_what_to_add_which_is_enough(
    given: Given, make: Made, requiring: Path
) -> None:
    """As the release's Python reads the requirements, whichever builds."""
    given('Wheels(["numpy==2.2.6", "learner==1.0"])')

    problem = refused(make)

    assert problem.rule == "environment-requires"
    assert "learner requires bases, new" in problem.what
    assert "numpy requires hints" in problem.what
    added = '"bases==2.5", "deeper==1.0", "hints==1.0", "new==1.0"'
    assert f"add {added}; " in problem.fix
    given(f'Wheels(["numpy==2.2.6", "learner==1.0", {added}])')
    assert check_path(make()) == []


def test_a_pin_that_another_wheel_does_not_accept_is_refused_unless_it_is_not_needed(
    given: Given, make: Made, requiring: Path, models: Path
) -> None:
    given('Wheels(["numpy==2.2.6", "learner==1.0", "bases==1.5"], not_needed=["hints", "New"])')

    problem = refused(make)

    assert problem.rule == "environment-requires"
    assert problem.what == "learner==1.0 requires bases>=2, and the wheels have bases==1.5"
    path = models / "sums" / "build.py"
    path.write_text(path.read_text().replace('"New"]', '"New", "bases"]'))
    assert check_path(make()) == []


def test_wheels_are_those_of_the_releases_python(shelf: Path, tmp_path: Path) -> None:
    for python in ("311", "312"):
        tag = f"cp{python}-cp{python}-manylinux_2_28_x86_64"
        put_wheel(shelf, "greeting", {"greeting.py": f"FOR = {python}\n"}, tag=tag)

    make_environment(tmp_path / "environment", wheels=["greeting==1.0"], python="3.12")

    packages = tmp_path / "environment/lib/python3.12/site-packages"
    assert (packages / "greeting.py").read_text() == "FOR = 312\n"
    names = {path.name for path in (tmp_path / "environment").rglob("*")}
    assert not names & {"INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "__pycache__"}
    assert "home = /usr/bin\n" in (tmp_path / "environment/pyvenv.cfg").read_text()


def test_what_a_pattern_names_is_left_out_and_one_that_names_nothing_is_refused(
    given: Given, make: Made, stocked: Path
) -> None:
    files = {f"greeting/{each}": "" for each in ("__init__.py", "deep/tests/test_it.py", "tests/test_it.py")}
    put_wheel(stocked, "greeting", files, version="2.0")
    wheels = '["numpy==2.2.6", "greeting==2.0"], without=["greeting/**/tests"'
    given(f'Wheels({wheels}, "greeting/absent"])')

    problem = refused(make)

    assert (problem.rule, "'greeting/absent'" in problem.what) == ("environment-without", True)
    given(f"Wheels({wheels}])")
    root = make()
    packages = root / "sums/environment/lib/python3.12/site-packages/greeting"
    assert sorted(path.name for path in packages.rglob("*")) == ["__init__.py", "deep"]
    made = json.loads((root / "build.json").read_text())["sources"]["environment:sums"]
    assert made.endswith("greeting==2.0 without greeting/**/tests")


# What was packed before


SOUND = ("bin/activate", "bin/python3", "lib/python3.12/site-packages/numpy-2.2.6.dist-info/METADATA")


def pack_environment(path: Path, names: Iterable[str], *, above: str = "", also: Contents = ()) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in (*((name, b"") for name in names), *also):
            member = tarfile.TarInfo(above + name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@pytest.fixture
def packed(models: Path, given: Given) -> Path:
    """Pack an environment at the path that the declaration expects."""
    given('PackedEnvironment("environment.tar.gz")')
    return models / "sums" / "environment.tar.gz"


def test_a_packed_environment_is_copied_and_named(packed: Path, make: Made) -> None:
    pack_environment(packed, SOUND, above="./")

    root = make()

    assert path_of(root / "sums") == "$$TRITON_MODEL_DIRECTORY/environment.tar.gz"
    assert (root / "sums/environment.tar.gz").read_bytes() == packed.read_bytes()
    sources = json.loads((root / "build.json").read_text())["sources"]
    assert sources["environment:sums"].startswith("sha256:")
    assert check_path(root) == []


@pytest.mark.parametrize(
    ("names", "above", "what"),
    [
        (SOUND[1:], "", "environment.tar.gz has no bin/activate"),
        (SOUND, "env/", "environment.tar.gz has its bin/activate at env/bin/activate"),
        ((*SOUND[:2], "lib/python3.10/os.py"), "", "environment.tar.gz is an environment of Python 3.10"),
        ((*SOUND[:2], "lib/python3.12/os.py"), "", "environment.tar.gz has no NumPy"),
    ],
)
def test_a_packed_environment_that_would_not_load_is_refused(
    names: tuple[str, ...], above: str, what: str, packed: Path, make: Made
) -> None:
    pack_environment(packed, names, above=above)

    problem = refused(make)

    assert (problem.rule, problem.what) == ("packed-environment", what)


def test_a_packed_environment_that_is_not_there_is_asked_for(packed: Path, make: Made) -> None:
    problem = refused(make)

    assert problem.what == f"the packed environment '{packed}' does not exist"
    assert "conda-pack" in problem.fix
