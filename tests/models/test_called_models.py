"""Models that call others: built, packed under unique names, and served next to their other versions."""

from __future__ import annotations

import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from one_server import ENDPOINT, ask
from recipes import block_with

from tests.triton_models.model_folders import untar
from triton_fleet import TritonServer as Options
from triton_models.artifact.pack.pack import pack
from triton_models.artifact.pbtxt import calls_of, read_config
from triton_models.base.errors import FleetError, Problem
from triton_models.builds.build import build
from triton_models.check.check import check_path
from triton_models.check.target import MULTI_MODEL_ENDPOINT, target
from triton_models.cli.main import main
from triton_models.spec import load_build
from triton_rehearsal.triton.contract import Answer, MultiModelContract
from triton_rehearsal.triton.server import TritonServer

RECIPE, CODE = block_with("calls=["), block_with("CalledModels(args)")
UNSURE = {"FEATURES": np.zeros((2, 3), np.float32)}
MULTI_MODEL = target(endpoint=MULTI_MODEL_ENDPOINT)


@pytest.fixture
def cascade(models: Path) -> Path:
    """The recipe of the page."""
    folder = models / "cascade"
    folder.mkdir()
    (folder / "build.py").write_text(RECIPE)
    (folder / "choice.py").write_text(CODE)
    return folder


def version(cascade: Path, output: Path, *, seed: int = 2) -> Path:
    """The unpacked artifact of a version whose large network has other weights."""
    (cascade / "build.py").write_text(RECIPE.replace("manual_seed(2)", f"manual_seed({seed})"))
    root = build(cascade.name, models=cascade.parent, output=output / f"built-{seed}")
    artifact = pack(root, output=output).path
    folder = output / artifact.name.removesuffix(".tar.gz")
    untar(artifact, folder)
    return folder


def answer_of(seed: int) -> np.ndarray:
    import torch

    torch.manual_seed(seed)
    network = torch.nn.Sequential(torch.nn.Linear(3, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
    with torch.inference_mode():
        return np.asarray(network(torch.zeros(2, 3)))


def load(contract: MultiModelContract, root: Path) -> Answer:
    return contract.load(model_id=root.name, target_model=root.name, folder=str(root))


def unload(contract: MultiModelContract, root: Path) -> None:
    assert contract.unload(model_id=root.name, target_model=root.name).ok


def mistakes(cascade: Path, *changes: tuple[str, str]) -> list[Problem]:
    text = RECIPE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (cascade / "build.py").write_text(text)
    with pytest.raises(FleetError) as caught:
        load_build("cascade", cascade.parent)
    return list(caught.value.problems)


def test_the_recipe_is_built_and_verified(cascade: Path, tmp_path: Path) -> None:
    root = build("cascade", models=cascade.parent, output=tmp_path)
    assert check_path(root, target=MULTI_MODEL) == []
    assert main(["verify", str(root), "--models", str(cascade.parent)]) == 0


def test_called_models_have_names_of_their_artifact(cascade: Path, tmp_path: Path) -> None:
    one, other = (version(cascade, tmp_path, seed=seed) for seed in (2, 3))

    names = [calls_of(read_config(each / "choice" / "config.pbtxt")) for each in (one, other)]
    assert [set(each) for each in names] == [{"small", "large"}] * 2
    assert not set(names[0].values()) & set(names[1].values())
    assert all((one / name / "1" / "model.onnx").is_file() for name in names[0].values())
    assert check_path(one, target=MULTI_MODEL) == []


def test_copies_call_models_of_their_own(
    cascade: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = build("cascade", models=cascade.parent, output=tmp_path)
    assert main(["pack", str(root), "-o", str(tmp_path / "dist"), "--copies", "2"]) == 0
    for number, path in enumerate(capsys.readouterr().out.splitlines(), start=1):
        assert check_path(Path(path), target=MULTI_MODEL) == []
        with tarfile.open(path) as archive:
            called = {name.partition("/")[0] for name in archive.getnames() if "onnx" in name}
        assert sorted(each.rpartition("-")[0] for each in called) == [f"large-{number}", f"small-{number}"]


@pytest.mark.story
def test_two_versions_and_an_evicted_one_answer_on_one_server(cascade: Path, tmp_path: Path) -> None:
    one, other = (version(cascade, tmp_path, seed=seed) for seed in (2, 3))
    with TritonServer(ENDPOINT, tmp_path / "server") as server, MultiModelContract(server.socket) as contract:
        assert load(contract, one).ok
        assert load(contract, other).ok
        for _ in range(6):  # what it called ends at any time after its unload, also after the next load
            for root, seed in ((one, 2), (other, 3)):
                answer = ask(contract, root.name, UNSURE)["SCORES"]
                np.testing.assert_allclose(answer, answer_of(seed), atol=1e-5)
            unload(contract, one)
            assert load(contract, one).ok


def test_called_models_end_with_their_caller(cascade: Path, tmp_path: Path) -> None:
    root = version(cascade, tmp_path)
    with (
        TritonServer(ENDPOINT, tmp_path / "server", gpu_memory=1 << 20) as server,
        MultiModelContract(server.socket) as contract,
    ):
        assert load(contract, root).ok
        assert server.gpu is not None
        assert server.gpu.used() > 0
        unload(contract, root)
        deadline = time.monotonic() + 30
        while server.gpu.used() and time.monotonic() < deadline:
            contract.ping()  # they end a while after the answer to the unload
        assert server.gpu.used() == 0


@pytest.mark.story
def test_without_unique_names_a_version_answers_with_the_weights_of_another(
    cascade: Path, tmp_path: Path
) -> None:
    for seed in (2, 3):
        version(cascade, tmp_path, seed=seed)
    one, other = (
        (tmp_path / f"built-{seed}" / "cascade").rename(tmp_path / f"cascade-{seed}") for seed in (2, 3)
    )
    with TritonServer(ENDPOINT, tmp_path / "server") as server, MultiModelContract(server.socket) as contract:
        assert load(contract, one).ok
        assert load(contract, other).ok
        np.testing.assert_allclose(ask(contract, other.name, UNSURE)["SCORES"], answer_of(2), atol=1e-5)


@pytest.mark.story
def test_many_callers_load_at_the_same_time_with_the_options_of_an_endpoint(
    cascade: Path, tmp_path: Path
) -> None:
    roots = [version(cascade, tmp_path, seed=seed) for seed in range(12)]
    options = {**ENDPOINT, **Options()._environment()}
    with TritonServer(options, tmp_path / "server") as server, MultiModelContract(server.socket) as contract:
        with ThreadPoolExecutor(len(roots)) as pool:
            answers = list(pool.map(lambda root: load(contract, root), roots))
        assert [each.status for each in answers] == [200] * len(roots)


def test_a_model_outside_its_calls_is_named_in_the_answer(
    cascade: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (cascade / "choice.py").write_text(CODE.replace('"large"', '"larger"'))
    root = build("cascade", models=cascade.parent, output=tmp_path)
    assert main(["verify", str(root), "--models", str(cascade.parent)]) == 1
    assert "'larger' is not in calls of the declaration, only large, small" in "".join(capsys.readouterr())


ALSO = 'calls=["small", "large"'
CHOICE = """        PythonModel(
            name="again{}", code="choice.py", calls=[{}], max_batch_size=8,
            inputs=[FEATURES], outputs=[Tensor("SCORES", "FP32", [2])],
        ),
        Ensemble("""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([(ALSO, 'calls=["small", "lagre"')], "'choice' calls 'lagre'"),
        ([(ALSO, 'calls=["small"')], "no request to 'cascade' reaches large"),
        ([(ALSO, 'calls=["small", "large", "cascade"')], "'choice' calls the ensemble 'cascade'"),
        ([(ALSO, 'calls=["small", "large", "choice"')], "'choice' calls 'choice', which is a step"),
        ([('steps=["choice"]', 'steps=["choice", "large"]')], "'choice' calls 'large', which is a step"),
        (
            [(ALSO, f'{ALSO}, "again1"'), ("        Ensemble(", CHOICE.format(1, '"again1"'))],
            "'again1' calls itself",
        ),
        (
            [
                (ALSO, f'{ALSO}, "again1", "again2", "again3"'),
                *(("        Ensemble(", CHOICE.format(number, '"small"')) for number in (1, 2, 3)),
            ],
            "4 models call others: ",
        ),
        (
            [
                ("import Ensemble", "import Instances, Ensemble"),
                (ALSO, f'instances=Instances(count=2, kind="KIND_CPU"), {ALSO}'),
            ],
            "has 2 instances",
        ),
    ],
)
def test_calls_that_cannot_work_are_mistakes(
    changes: list[tuple[str, str]], said: str, cascade: Path
) -> None:
    assert any(said in problem.what for problem in mistakes(cascade, *changes))
