"""The labels of a container image, read from what describes it on this machine."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from triton_models.base.checks import FROM_ARGUMENTS, Check

IMAGE_DESCRIPTION = Check(id="image-description", source=FROM_ARGUMENTS)

_CONTINUED = re.compile(r"\\[ \t]*\n")
_COMMENT = re.compile(r"^[ \t]*#.*\n?", re.MULTILINE)


def image_labels(path: Path) -> Mapping[str, str]:
    """The labels that an image has.

    Args:
        path: A Dockerfile; or JSON, as `docker inspect` and `skopeo inspect --config` print it; or the folder
            of an OCI image layout with one image.

    Raises:
        FleetError: The path cannot be read as any of these.
    """
    try:
        if path.is_dir():
            return _labels_in(_layout_config(path))
        text = path.read_text()
        return _labels_in(json.loads(text)) if text.lstrip().startswith(("{", "[")) else _dockerfile(text)
    except (OSError, UnicodeDecodeError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise IMAGE_DESCRIPTION.error(
            what=f"no image description can be read from {path}: {error or type(error).__name__}",
            where=str(path),
            why="the labels of the image are checked before anything is deployed",
            fix="give a Dockerfile, the folder of an OCI layout, or the output of docker inspect IMAGE",
        ) from None


def _labels_in(described: Any) -> Mapping[str, str]:
    """The labels in an image's configuration, alone or in the list that `docker inspect` prints."""
    image = described[0] if isinstance(described, list) else described
    config = image.get("config", image.get("Config"))
    return dict(config.get("Labels") or {})


def _layout_config(layout: Path) -> Any:
    """The image's configuration in an OCI layout: the index leads to the manifest, and that to it."""
    described = json.loads((layout / "index.json").read_text())
    while "manifests" in described:  # an index may lead to another one
        described = json.loads(_blob(layout, described["manifests"][0]).read_text())
    return json.loads(_blob(layout, described["config"]).read_text())


def _blob(layout: Path, descriptor: Mapping[str, str]) -> Path:
    algorithm, _, digest = descriptor["digest"].partition(":")
    return layout / "blobs" / algorithm / digest


def _dockerfile(text: str) -> Mapping[str, str]:
    """The labels of a Dockerfile's last stage, with those of the stages it is made from.

    Those of a base image from elsewhere are not known; and a variable is left as it is written.
    """
    stages: dict[str, dict[str, str]] = {}
    labels: dict[str, str] = {}
    started = False
    for instruction, rest in _instructions(text):
        if instruction == "FROM":
            started = True
            words = [word for word in rest.split() if not word.startswith("--")]
            labels = dict(stages.get(words[0].lower(), {}))
            if len(words) > 2:  # noqa: PLR2004 -- FROM image AS name
                stages[words[2].lower()] = labels
        elif instruction == "LABEL":
            labels.update(_pairs(rest))
    if not started:
        msg = "it has no FROM"
        raise ValueError(msg)
    return labels


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    joined = _CONTINUED.sub(" ", _COMMENT.sub("", text.replace("\r\n", "\n")))
    for line in joined.splitlines():
        instruction, _, rest = line.strip().partition(" ")
        if instruction:
            yield instruction.upper(), rest.strip()


def _pairs(rest: str) -> Iterator[tuple[str, str]]:
    words = shlex.split(rest)
    if words and "=" not in words[0]:  # the old form, LABEL key value
        yield words[0], " ".join(words[1:])
        return
    for word in words:
        key, _, value = word.partition("=")
        yield key, value
