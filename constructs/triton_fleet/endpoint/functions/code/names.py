"""Reads the manifest for functions: which artifact a model's name stands for on an endpoint.

The text of this file replaces its import in the functions that use it. It imports only the standard library,
and needs no table of releases and GPUs, because the manifest says what each artifact runs on.
"""

from __future__ import annotations

import json
from typing import Any

# Of the manifest that `fleet publish` writes. In version 1 a name stood for one artifact everywhere.
MANIFEST_VERSIONS = (1, 2)


def models_of(manifest: str | bytes) -> dict[str, Any]:
    """The models of a manifest. An invalid record is left out: clients refuse its name, and no other.

    Raises:
        ValueError: It is not a manifest, or one of another version.
    """
    try:
        document = json.loads(manifest)
        version, models = document["version"], document["models"]
        if version in MANIFEST_VERSIONS:
            return {name: model for name, model in models.items() if _is_record(model)}
    except (KeyError, TypeError, AttributeError) as error:
        msg = f"it is not a manifest: {type(error).__name__} {error}"
        raise ValueError(msg) from error
    msg = f"it has version {version!r} instead of {' or '.join(map(str, MANIFEST_VERSIONS))}"
    raise ValueError(msg)


def _is_record(model: Any) -> bool:
    """Return whether a record has the types of those that `fleet publish` writes."""
    try:
        current = model["current"]
        if isinstance(current, str):
            return True
        history, artifacts = model.get("history", []), model.get("artifacts", {}).values()
        targets = [*current, *(change["target"] for change in history)]
        targets += [target for each in artifacts for target in each.get("targets", ())]
        names = [*current.values(), *(change["artifact"] for change in history)]
        return all(isinstance(covers(target, "any"), bool) for target in targets) and all(
            isinstance(name, str) for name in names
        )
    except (KeyError, TypeError, AttributeError, ValueError):
        return False


def moved_for(model: dict[str, Any], target: str) -> str | None:
    """The artifact that is current for a target, or for a wider one that covers it."""
    current = model["current"]
    if isinstance(current, str):
        return current
    covering = sorted((each for each in current if covers(each, target)), key=width)
    return str(current[covering[0]]) if covering else None


def artifact_on(model: dict[str, Any], target: str) -> str | None:
    """The artifact that a name stands for on an endpoint of a target; None without one.

    As `ModelRecord.on` has it: without a publication for the target, what was moved to last of all that runs
    there.
    """
    found = moved_for(model, target)
    if found is not None:
        return found
    last = {change["target"]: number for number, change in enumerate(model.get("history", ()))}
    for each in sorted(model["current"], key=lambda each: (-last.get(each, -1), each)):
        name = model["current"][each]
        if any(covers(wide, target) for wide in model.get("artifacts", {}).get(name, {}).get("targets", ())):
            return str(name)
    return None


def covers(wide: str, target: str) -> bool:
    """Return whether an artifact for one target runs on another."""
    if wide == "any":
        return True
    hardware, _, tensorrt = wide.rpartition("-trt")
    mine, _, other = target.rpartition("-trt")
    if tensorrt != other:
        return False
    if hardware == "ampere+" and mine.startswith("sm"):
        return int(mine.removeprefix("sm")) >= 80  # noqa: PLR2004 -- Ampere's compute capability is 8.0
    return hardware in ("any", mine)


def width(target: str) -> int:
    """Return the width of a target: the more it covers, the larger."""
    if target == "any":
        return 3
    return {"any": 2, "ampere+": 1}.get(target.rpartition("-trt")[0], 0)
