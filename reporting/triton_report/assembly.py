"""The output of `cdk synth`: the resources of every stack, by the names of their constructs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from triton_models.base.errors import FleetError

Key: TypeAlias = tuple[str, str]
"""A stack and a logical id."""

_STACK = "aws:cloudformation:stack"
_LOGICAL_ID = "aws:cdk:logicalId"
_WARNING = "aws:cdk:warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource of a template. Its path is its construct's, with the stack only if several have the same."""

    stack: str
    logical_id: str
    type: str
    path: str
    properties: Mapping[str, Any]
    kept_when_removed: bool
    kept_when_replaced: bool

    @property
    def key(self) -> Key:
        """The unique identity of the resource."""
        return self.stack, self.logical_id


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisWarning:
    """A warning that a construct gave during the synthesis."""

    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """Every stack of an app; an export has its stack, and its value in the template."""

    resources: Mapping[Key, Resource]
    warnings: frozenset[SynthesisWarning]
    exports: Mapping[str, tuple[str, Any]]

    @property
    def stacks(self) -> frozenset[str]:
        """The names of the stacks."""
        return frozenset(stack for stack, _ in self.resources)

    def of_type(self, type_name: str) -> list[Resource]:
        """The resources of a type."""
        return [each for each in self.resources.values() if each.type == type_name]


def read_assembly(folder: Path) -> Assembly:
    """Read the folder that `cdk synth` wrote."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
    except (OSError, ValueError) as error:
        raise FleetError.of(
            what=f"{folder} is not the output of `cdk synth`: {error}",
            where="the cloud assembly",
            fix="run `cdk synth` first, and use its output folder",
            rule="assembly",
        ) from error
    resources: dict[Key, Resource] = {}
    warnings: set[SynthesisWarning] = set()
    exports: dict[str, tuple[str, Any]] = {}
    for name, artifact in manifest["artifacts"].items():
        if artifact["type"] == _STACK:
            metadata = _metadata(folder, artifact)
            template = json.loads((folder / artifact["properties"]["templateFile"]).read_text())
            resources |= {each.key: each for each in _resources(name, template, metadata)}
            exports |= _exports(name, template)
            warnings |= {
                SynthesisWarning(path=path.strip("/"), text=str(entry["data"]))
                for path, entries in metadata.items()
                for entry in entries
                if entry["type"] == _WARNING
            }
    return Assembly(
        resources={each.key: each for each in _kept_apart(resources.values())},
        warnings=frozenset(warnings),
        exports=exports,
    )


def _kept_apart(resources: Collection[Resource]) -> Iterator[Resource]:
    """Yield the resources, with the stack in each path that several stacks have."""
    stacks = Counter(path for path, _ in {(each.path, each.stack) for each in resources})
    for each in resources:
        yield replace(each, path=f"{each.stack}/{each.path}") if stacks[each.path] > 1 else each


def _exports(stack: str, template: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    named = [
        (each.get("Export", {}).get("Name"), each["Value"]) for each in template.get("Outputs", {}).values()
    ]
    return {name: (stack, value) for name, value in named if isinstance(name, str)}


def _metadata(folder: Path, artifact: Mapping[str, Any]) -> dict[str, Any]:
    """Return the messages of the constructs by path, from their own file or the manifest before CDK 2.200."""
    if "additionalMetadataFile" in artifact:
        content: dict[str, Any] = json.loads((folder / artifact["additionalMetadataFile"]).read_text())
        return content
    return dict(artifact.get("metadata", {}))


def _resources(stack: str, template: Mapping[str, Any], metadata: Mapping[str, Any]) -> Iterator[Resource]:
    paths = {
        entry["data"]: path.removeprefix(f"/{stack}/").removesuffix("/Resource").removesuffix("/Resource")
        for path, entries in metadata.items()
        for entry in entries
        if entry["type"] == _LOGICAL_ID
    }
    for logical_id, resource in template.get("Resources", {}).items():
        yield Resource(
            stack=stack,
            logical_id=logical_id,
            type=resource["Type"],
            path=paths.get(logical_id, logical_id),
            properties=resource.get("Properties", {}),
            kept_when_removed=resource.get("DeletionPolicy", "Delete") != "Delete",
            kept_when_replaced=resource.get("UpdateReplacePolicy", "Delete") != "Delete",
        )
