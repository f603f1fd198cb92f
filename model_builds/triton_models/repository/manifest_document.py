"""The JSON document of a model in the manifest: version 2 is written, version 1 is still read.

Version 1 had one current artifact per model for all targets. Its history is read as publications for the
targets in each artifact's record, so a current artifact remains current wherever it loads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from triton_models.artifact.targets import ANY, ArtifactTarget
from triton_models.base.errors import FleetError
from triton_models.repository.model_record import ArtifactRecord, Change, ModelRecord

# What reading a document that is no manifest raises.
DAMAGES = (ValueError, KeyError, TypeError, AttributeError, RecursionError, FleetError)

# The first line and the end of what `Manifest.to_json` writes. Between them, each line is a model.
_HEAD = re.compile(rb'\{"version": 2, "deleting": (\{[^\n]*\}), "models": \{\n')
_MODEL = re.compile(rb'"([^"\\\x80-\xff]*)": \{')
_END = b"\n}}\n"


class ModelLines(Mapping[str, ModelRecord]):
    """The models of a document, each parsed when it is first asked for; safe to use from many threads.

    Args:
        lines: The JSON document of each model.
        damaged: Returns the error to raise about a model's line.
    """

    def __init__(self, lines: Mapping[str, bytes], damaged: Callable[[str, Exception], FleetError]) -> None:
        self._lines = lines
        self._damaged = damaged
        self._parsed: dict[str, ModelRecord] = {}

    def __getitem__(self, name: str) -> ModelRecord:
        found = self._parsed.get(name)
        if found is None:
            line = self._lines[name]
            try:
                found = model_record(json.loads(line))
            except DAMAGES as error:
                raise self._damaged(name, error) from None
            self._parsed[name] = found
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


def lines_of(document: bytes) -> tuple[Mapping[str, str], Mapping[str, bytes]] | None:
    """Return what a document of version 2 deletes, and the line of each model; None for another layout.

    A string in JSON has no line breaks, so a line that begins with a name and ends with its brace is a model.
    """
    head = _HEAD.match(document)
    if head is None or not document.endswith(_END):
        return None
    lines: dict[str, bytes] = {}
    begin, end = head.end(), len(document) - len(_END)
    while begin < end:
        stop = document.find(b"\n", begin, end)
        last = stop < 0
        stop = end if last else stop - 1  # without its comma
        model = _MODEL.match(document, begin, stop)
        if model is None or document[stop - 1 : stop + 1] != (b"}\n" if last else b"},"):
            return None
        lines[model[1].decode()] = document[model.end() - 1 : stop]
        begin = stop + 2
    try:
        return dict(json.loads(head[1])), lines
    except (ValueError, RecursionError):
        return None


def in_json(moment: datetime) -> str:
    """Return a time in UTC, such as "2026-11-21T13:20:05Z"."""
    return moment.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def model_document(model: ModelRecord) -> dict[str, Any]:
    """Return the document of a model in version 2."""
    return {
        "current": {str(target): artifact for target, artifact in model.current.items()},
        "history": [
            {
                "target": str(change.target),
                "artifact": change.artifact,
                "how": change.how,
                "at": in_json(change.at),
                "by": change.by,
            }
            for change in model.history
        ],
        "artifacts": {
            name: {
                "size": each.size,
                "sha256": each.sha256,
                "build": dict(each.build),
                "plans": each.plans,
                "portable": each.portable,
                # For readers that lack the tables of releases and GPUs.
                "targets": [str(target) for target in each.targets],
                **({"inputs": dict(each.inputs)} if each.inputs else {}),
                **({"sbom": each.sbom} if each.sbom else {}),
            }
            for name, each in model.artifacts.items()
        },
    }


def model_record(document: Mapping[str, Any]) -> ModelRecord:
    """Read a model from a document of version 2."""
    return ModelRecord(
        current={ArtifactTarget.parse(target): name for target, name in document["current"].items()},
        history=tuple(
            _change(change, ArtifactTarget.parse(change["target"])) for change in document["history"]
        ),
        artifacts=_artifacts(document),
    )


def model_record_1(document: Mapping[str, Any]) -> ModelRecord:
    """Read a model from a document of version 1."""
    record = ModelRecord(current={}, history=(), artifacts=_artifacts(document))
    for change in document["history"]:
        record = record.with_changes(
            _change(change, target) for target in _targets(record, change["artifact"])
        )
    # Even if the history is pruned or differs.
    current = dict.fromkeys(_targets(record, document["current"]), document["current"])
    narrower = {
        target: name
        for target, name in record.current.items()
        if name in record.artifacts and not any(each.covers(target) for each in current)
    }
    return ModelRecord(current={**narrower, **current}, history=record.history, artifacts=record.artifacts)


def _targets(record: ModelRecord, artifact: str) -> tuple[ArtifactTarget, ...]:
    known = record.artifacts.get(artifact)
    return (ANY,) if known is None else known.targets


def _change(document: Mapping[str, Any], target: ArtifactTarget) -> Change:
    return Change(
        target=target,
        artifact=document["artifact"],
        how=document["how"],
        at=_parsed(document["at"]),
        by=document["by"],
    )


def _parsed(moment: str) -> datetime:
    # fromisoformat takes a tenth of strptime's time, and supports "Z" only from Python 3.11 on.
    return datetime.fromisoformat(moment.removesuffix("Z") + "+00:00")


def _artifacts(document: Mapping[str, Any]) -> dict[str, ArtifactRecord]:
    return {
        name: ArtifactRecord(
            size=each["size"],
            sha256=each["sha256"],
            build=each["build"],
            plans=tuple(each["plans"]),
            portable=each["portable"],
            inputs=each.get("inputs", {}),
            sbom=each.get("sbom", ""),
        )
        for name, each in document["artifacts"].items()
    }
