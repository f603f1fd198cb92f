"""Scenarios from YAML files, and those that come with the rehearsal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from pydantic import BaseModel

from triton_models.base.suggest import did_you_mean
from triton_models.load import scenario as load_scenario
from triton_models.load.scenario import SCENARIO, Stream, text_of
from triton_rehearsal.scenario.scenario import MOST_MODELS, Expected, Fault, Scenario

_PARTS: Mapping[str, type[BaseModel]] = {"traffic": Stream, "faults": Fault, "expect": Expected}
_STORIES = files("triton_rehearsal.scenario") / "stories"
_NUMBERS = [str(number) for number in range(1, MOST_MODELS + 1)]


def shipped() -> Sequence[str]:
    """Return the names of the scenarios that come with the rehearsal."""
    return sorted(
        each.name.removesuffix(".yaml") for each in _STORIES.iterdir() if each.name.endswith(".yaml")
    )


def read(name: str) -> Scenario:
    """Read a scenario from a file at a path, or the shipped one of a name."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.exists():
        text = text_of(path)
        return parse(text, name=path.stem, where=name, folder=path.parent)
    if name not in shipped():
        raise SCENARIO.error(
            what=f"no scenario {name!r}",
            where="--scenario",
            fix=did_you_mean(
                name, shipped(), otherwise=f"name a YAML file, or one of {', '.join(shipped())}"
            ),
        )
    return parse((_STORIES / f"{name}.yaml").read_text(), name=name, where=name, folder=Path())


def parse(text: str, *, name: str, where: str, folder: Path) -> Scenario:
    """Return the scenario in YAML. The path of its trace is relative to a folder."""
    found = load_scenario.parse(text, Scenario, where=where, folder=folder, models=_NUMBERS, parts=_PARTS)
    return found.named(name)
