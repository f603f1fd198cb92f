"""One environment for two steps of an ensemble, on the real Triton server: packed, unpacked and asked."""

from __future__ import annotations

import pickle
import re
import sysconfig
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from one_server import ENDPOINT, ask
from recipes import block_with
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_environments import DECLARATION as SUMS
from test_environments import SHARED
from wheel_shelf import PYTHON, put_numpy, put_wheel, use_servers_python

from triton_models.artifact.pack.pack import pack
from triton_models.builds.job import Job
from triton_models.builds.making import make
from triton_models.facts.releases import release
from triton_models.spec import load_build
from triton_rehearsal.hosting.model_data import unpack
from triton_rehearsal.triton.contract import MultiModelContract
from triton_rehearsal.triton.server import TritonServer

RECIPE, RECIPE_CODE = block_with('code="spam.py"'), block_with('spam.pkl").read_bytes())\n\n    def')
DECLARATION = SUMS.replace('"code.py"', 'f"{name}.py"').replace("{models}", SHARED)
DECLARATION = DECLARATION.replace("{environment}", 'Wheels(["numpy==2.2.6", "digits==1.0"])')
CODE = """
import digits
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(each) for each in requests]

    def answer(self, request):
        given = pb_utils.get_input_tensor_by_name(request, "SOURCE").as_numpy()
        made = given * 10 + np.int32(digits.DIGITS["TARGET"])
        return pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("TARGET", made)])
"""


@pytest.fixture
def artifact(models: Path, shelf: Path, tmp_path: Path) -> Path:
    """The ensemble as an endpoint unpacks it, with an environment for the server's Python.

    As releases from 25.08 on do not run bin/activate, what it does here is what they do: the environment's
    bin comes first on PATH. So it is found only if unpacking leaves its python3 executable.
    """
    put_numpy(shelf)
    put_wheel(shelf, "digits", {"digits.py": "DIGITS = {'z': 1, 'y': 2}\n"})
    (models / "sums").mkdir()
    (models / "sums/build.py").write_text(DECLARATION)
    for name, source, target in (("first", "x", "z"), ("second", "z", "y")):
        code = CODE.replace("SOURCE", source).replace("TARGET", target)
        (models / "sums" / f"{name}.py").write_text(code)
    root = tmp_path / "built" / "sums"
    root.mkdir(parents=True)
    job = Job(root=root, release=replace(release("25.09"), python=PYTHON), source=models / "sums", cpu=True)
    make(load_build("sums", models), job)
    use_servers_python(root / "environment")
    (root / "environment/bin/activate").write_text(f'export PATH="{tmp_path}/sums/environment/bin:$PATH"\n')
    with pack(root, output=tmp_path / "packed").path.open("rb") as stream:
        unpack(stream, tmp_path / "sums")
    return tmp_path / "sums"


def test_both_steps_import_from_the_one_environment(artifact: Path, tmp_path: Path) -> None:
    assert {path.name for path in artifact.iterdir()} == {"environment", "first", "second", "sums"}
    with TritonServer(ENDPOINT, tmp_path / "server") as server, MultiModelContract(server.socket) as contract:
        answer = contract.load(model_id="sums", target_model="sums", folder=str(artifact))
        assert answer.ok, f"{answer.text}\n{server.log_tail()}"
        answered = ask(contract, "sums", {"x": np.array([5], dtype=np.int32)})
        assert contract.unload(model_id="sums", target_model="sums").ok

    assert answered["y"].tolist() == [512]


def test_the_recipe_for_scikit_learn_answers_as_its_pickle(models: Path, shelf: Path, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    estimator = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, rows[:, 0] > 0)
    (models / "spam").mkdir()
    (models / "spam" / "build.py").write_text(RECIPE)
    (models / "spam" / "spam.py").write_text(RECIPE_CODE)
    (models / "spam" / "spam.pkl").write_bytes(pickle.dumps(estimator))
    for name, version in re.findall(r'"([\w-]+)==([\d.]+)"', RECIPE):
        leads_here = {f"{name}.pth": f"{sysconfig.get_path('purelib')}\n"}  # the real ones need a network
        put_wheel(shelf, name.replace("-", "_"), leads_here, version=version)
    declared = load_build("spam", models)
    root = tmp_path / "built" / "spam"
    root.mkdir(parents=True)
    make(
        declared,
        Job(root=root, release=replace(release("25.09"), python=PYTHON), source=models / "spam", cpu=True),
    )
    use_servers_python(root / "spam" / "environment")
    (example,) = declared.examples()

    with TritonServer(ENDPOINT, tmp_path / "server") as server, MultiModelContract(server.socket) as contract:
        answer = contract.load(model_id="spam", target_model="spam", folder=str(root))
        assert answer.ok, f"{answer.text}\n{server.log_tail()}"
        answered = ask(contract, "spam", example.inputs)
        assert contract.unload(model_id="spam", target_model="spam").ok
    expected = declared.reference(example.inputs)["SCORES"]
    np.testing.assert_allclose(answered["SCORES"], expected, atol=1e-5)
