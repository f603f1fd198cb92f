"""Edits that break a correct artifact."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.triton_models.check_case import Spoil
from tests.triton_models.model_folders import Edit, tar, write, write_environment, write_tag
from tests.triton_models.real_networks import write_onnx

ENVIRONMENT = "minilm_pooling/environment"
PACKAGES = f"{ENVIRONMENT}/lib/python3.12/site-packages"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 102442450\n"


def said(model: str, right: str, wrong: str) -> Spoil:
    return rewritten(f"{model}/config.pbtxt", right, wrong)


def rewritten(path: str, right: str, wrong: str) -> Spoil:
    def spoil(root: Path) -> None:
        text = (root / path).read_text()
        assert right in text
        (root / path).write_text(text.replace(right, wrong))

    return spoil


def edited(model: str, edit: Callable[[Any], object]) -> Spoil:
    def spoil(root: Path) -> None:
        with Edit(root / model) as config:
            edit(config)

    return spoil


def having(model: str, **fields: object) -> Spoil:
    def edit(config: Any) -> None:
        for field, value in fields.items():
            setattr(config, field, value)

    return edited(model, edit)


def stepped(number: int, edit: Callable[[Any], object]) -> Spoil:
    return edited("minilm", lambda config: edit(config.ensemble_scheduling.step[number]))


def written(path: str, content: bytes = b"") -> Spoil:
    return lambda root: write(root / path, content)


def without(path: str) -> Spoil:
    def spoil(root: Path) -> None:
        found = root / path
        if found.is_dir():
            shutil.rmtree(found)
        else:
            found.unlink()

    return spoil


def moved(path: str, to: str) -> Spoil:
    def spoil(root: Path) -> None:
        (root / to).parent.mkdir(exist_ok=True)
        (root / path).rename(root / to)

    return spoil


def copied(path: str, to: str) -> Spoil:
    def spoil(root: Path) -> None:
        shutil.copytree(root / path, root / to)

    return spoil


def renamed(name: str) -> Spoil:
    return lambda root: root.rename(root.with_name(name))


def both(*spoils: Spoil) -> Spoil:
    def spoil(root: Path) -> None:
        for each in spoils:
            each(root)

    return spoil


def added(model: str, text: str) -> Spoil:
    return lambda root: write(
        root / model / "config.pbtxt", (root / model / "config.pbtxt").read_bytes() + text.encode()
    )


def exported(model: str) -> Spoil:
    """Write the network that fits the configuration, after a change of its tensors."""

    def spoil(root: Path) -> None:
        write_onnx(root / model)

    return spoil


def streaming(model: str) -> Spoil:
    return edited(model, lambda it: setattr(it.model_transaction_policy, "decoupled", True))


def built_for(**record: object) -> Spoil:
    def spoil(root: Path) -> None:
        path = root / "build.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **record}))

    return spoil


def listing_twice(model: str, part: str) -> Spoil:
    return edited(model, lambda it: getattr(it, part).append(getattr(it, part)[0]))


def linked(path: str, target: str) -> Spoil:
    return lambda root: (root / path).symlink_to(target)


def with_a_pipe(root: Path) -> None:
    os.mkfifo(root / "resnet50/pipe")


def with_a_name_of_bytes(root: Path) -> None:
    Path(os.fsdecode(os.fsencode(root / "resnet50") + b"/\xff")).write_bytes(b"")


def tagged(tag: str) -> Spoil:
    """NumPy in the environment is of another platform or Python."""
    return lambda root: write_tag(root / PACKAGES / "numpy-2.2.6.dist-info", tag)


def packed(*, python: str) -> Spoil:
    def spoil(root: Path) -> None:
        unpacked = root.with_name(f"environment-{python}")
        write_environment(unpacked, python=python)
        tar(unpacked, root / f"{ENVIRONMENT}.tar.gz")

    return spoil
