"""The recipes of docs/bring_models.md are built, served and verified as they are written."""

from __future__ import annotations

import io
import json
import pickle
import re
import shutil
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import moto
import numpy as np
import pytest
import torch
import transformers
import xgboost
from recipes import BLOCKS, PAGE
from sklearn.ensemble import RandomForestRegressor
from small_onnx import network_of

from triton_fleet.app import FleetConfig
from triton_models.builds.build import build
from triton_models.cli.main import main
from triton_models.spec import models_folder

RECIPES = {
    re.findall(r'^    name="(\w+)"', code, flags=re.MULTILINE)[0]: code
    for code in BLOCKS
    # The others are tried in tests/models/test_compiled.py, for the release, and, with their code, in
    # test_environments_served.py, test_sequences.py and test_called_models.py.
    if "ModelDefinition" in code and not re.search("Wheels|SequenceBatching|calls=", code)
}
ROWS = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)


def packed(name: str, content: bytes) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as opened:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        opened.addfile(member, io.BytesIO(content))
    return archive.getvalue()


def small_network() -> bytes:
    return network_of("g (float[rows, 3] X) => (float[rows, 3] Y) { Y = Relu(X) }").SerializeToString()


def _sentence_transformer(folder: Path, **sizes: int) -> None:
    """Save a small one: its pooling takes the first token, and its vectors are normalized."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "house", "small", "garden", "and", "."]
    parts = folder.with_name("parts")
    parts.mkdir()
    (parts / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizerFast(str(parts / "vocab.txt")).save_pretrained(parts)
    transformers.BertModel(transformers.BertConfig(num_hidden_layers=1, **sizes)).save_pretrained(parts)
    steps = [Transformer(str(parts)), Pooling(sizes["hidden_size"], "cls"), Normalize()]
    SentenceTransformer(modules=steps).save(str(folder))


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everything that the recipes fetch: objects in S3, and a registry."""
    booster = xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(ROWS, ROWS[:, 0] > 0), 3)
    forest = RandomForestRegressor(5, random_state=0).fit(ROWS, ROWS[:, 0])
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 20}
    transformers.BertForSequenceClassification(
        transformers.BertConfig(num_hidden_layers=1, **sizes)
    ).save_pretrained(tmp_path / "checkpoint")
    _sentence_transformer(tmp_path / "sentences", **sizes)

    def download_artifacts(uri: str, *, dst_path: str) -> str:
        assert uri == "models:/fraud/7"
        Path(dst_path, "model.onnx").write_bytes(small_network())
        return dst_path

    registry = SimpleNamespace(artifacts=SimpleNamespace(download_artifacts=download_artifacts))
    monkeypatch.setitem(sys.modules, "mlflow", registry)  # type: ignore[arg-type]
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with moto.mock_aws():
        s3: Any = boto3.client("s3")
        s3.create_bucket(Bucket="bucket")
        objects = {
            "jobs/churn-17/output/model.tar.gz": packed("xgboost-model", bytes(booster.save_raw("ubj"))),
            "jobs/prices/forest.pkl": pickle.dumps(forest),
            **{
                f"checkpoints/{to}/{each.relative_to(tmp_path / folder)}": each.read_bytes()
                for folder, to in (("checkpoint", "reviews"), ("sentences", "sentences"))
                for each in (tmp_path / folder).rglob("*")
                if each.is_file()
            },
        }
        for key, content in objects.items():
            s3.put_object(Bucket="bucket", Key=key, Body=content)
        yield


@pytest.mark.story
@pytest.mark.usefixtures("trained")
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_built_and_verified(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = tmp_path / "models"
    (models / name).mkdir(parents=True)
    (models / name / "build.py").write_text(RECIPES[name])
    if "tokenizer.py" in RECIPES[name]:
        shutil.copy(models_folder() / "minilm" / "tokenizer.py", models / name)
    if "LocalWeights" in RECIPES[name]:
        torch.save(
            torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).state_dict(),
            models / name / "net.pt",
        )
    root = build(name, models=models, output=tmp_path / "out")
    assert main(["verify", str(root), "--models", str(models)]) == 0
    assert f"{name}: fp32" in capsys.readouterr().out


def test_each_section_with_a_recipe_has_one() -> None:
    assert list(RECIPES) == ["tiny", "scores", "churn", "prices", "reviews", "sentences", "fraud"]


def test_the_configuration_on_the_page_is_one() -> None:
    (found,) = re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)
    assert set(json.loads(found)) <= set(FleetConfig.settings())
