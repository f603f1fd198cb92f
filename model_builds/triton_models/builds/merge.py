"""`fleet merge`: merge the artifact roots of several GPU models into one.

Triton loads the plan for the GPU's compute capability (cc_model_filenames of NVIDIA's ModelConfig schema;
BackendModelInstance of triton-inference-server/backend; read on 2026-11-21). An endpoint can thus move to
another GPU model while its repository has a plan for both.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import posixpath
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton_models.artifact import archive
from triton_models.artifact.built_for import built_gpus
from triton_models.artifact.layout import BUILD_FILE, Layout, read_layout
from triton_models.artifact.staging import refuse_foreign, replace_folder, staging_folder
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.builds.build import Built
from triton_models.config.pbtxt import CONFIG_FILE, read_config, write_config
from triton_models.facts.instances import gpu as gpu_named
from triton_models.pack.called import restore_names

_CHUNK_BYTES = 1 << 20
_FEWEST = 2

# The fields of build.json that may differ between the roots.
_OF_A_GPU = frozenset({"gpu", "plans"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """An artifact root for one GPU model.

    Attributes:
        where: The given path, for errors.
        layout: Its content.
        record: The content of its build.json.
        gpu: The GPU model.
        plans: The paths of its plans in the artifact.
    """

    where: str
    layout: Layout
    record: Mapping[str, Any]
    gpu: str
    plans: Mapping[str, Mapping[str, str]]

    @property
    def others(self) -> dict[str, Path]:
        """Return the files that do not depend on the GPU, by path in the artifact."""
        return {
            path: source
            for path, source in self.layout.sources.items()
            if path not in self.plans and path != BUILD_FILE
        }


def run(arguments: argparse.Namespace) -> Built:
    """Run `fleet merge ROOT ROOT... -o DIR`."""
    return Built(roots=(merge(arguments.roots, output=arguments.output),))


def merge(paths: Sequence[Path], *, output: Path) -> Path:
    """Merge artifact roots that were built for different GPUs.

    Args:
        paths: Artifact roots, or artifacts written by `fleet pack`: one per GPU model.
        output: The folder to write the merged root to, under the model's name. A complete build replaces an
            earlier one there.

    Returns:
        The merged root.

    Raises:
        FleetError: The roots have different models, releases or sources, differ in more than their plans, or
            have GPUs that Triton cannot distinguish; all problems are reported together.
    """
    with contextlib.ExitStack() as stack:
        roots = _read(paths, stack)
        raise_if_any([*_gpu_problems(roots), *_difference_problems(roots)])
        name = str(roots[0].record["model"])
        target = output / name
        refuse_foreign(target)
        with staging_folder(output, name) as staging:
            merged = staging / name
            _write(merged, sorted(roots, key=lambda root: root.gpu))
            replace_folder(merged, target, aside=staging / "earlier")
    return target


def _read(paths: Sequence[Path], stack: contextlib.ExitStack) -> list[Root]:
    roots, problems = [], []
    if len(paths) < _FEWEST:
        problems.append(
            _problem(
                "a single root", where="the command line", expected="two or more roots, one per GPU model"
            )
        )
    for path in paths:
        try:
            roots.append(_root(path, stack))
        except FleetError as error:
            problems.extend(error.problems)
    raise_if_any(problems)
    return roots


def _root(path: Path, stack: contextlib.ExitStack) -> Root:
    layout = read_layout(path)
    if not path.is_dir():
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-merge-")))
        with path.open("rb") as content:
            archive.unpack(content, folder / "artifact", where=str(path))
        restore_names(folder / "artifact")
        layout = read_layout(folder / "artifact")
    record = layout.build()
    gpus, plans = built_gpus(record), record.get("plans")
    if len(gpus) == 1 and isinstance(plans, Mapping) and plans and plans.keys() <= layout.files.keys():
        return Root(where=str(path), layout=layout, record=record, gpu=gpus[0], plans=plans)
    what = f"plans for {', '.join(gpus)}" if len(gpus) > 1 else "no plan with a GPU in build.json"
    raise FleetError(
        [_problem(what, where=str(path), expected="a root built by `fleet build --gpu` for one GPU model")]
    )


def _gpu_problems(roots: Sequence[Root]) -> Iterator[Problem]:
    """Yield a problem for each pair of roots whose plans Triton cannot distinguish."""
    by_capability: dict[str, Root] = {}
    for root in roots:
        capability = gpu_named(root.gpu).compute_capability
        first = by_capability.setdefault(capability, root)
        if first is root:
            continue
        same = first.gpu == root.gpu
        yield Problem(
            what=f"two roots for {root.gpu}"
            if same
            else f"{first.gpu} and {root.gpu} both have compute capability {capability}",
            where=f"{first.where} and {root.where}",
            expected="one root per GPU model, each with a different compute capability",
            why="Triton chooses the plan by compute capability, so one GPU would get the other's",
            fix="remove one of them" if same else "use a separate repository for each of these GPU models",
            rule="merge-gpu",
        )


def _difference_problems(roots: Sequence[Root]) -> Iterator[Problem]:
    """Yield the differences between the roots other than their plans."""
    first = roots[0]
    for root in roots[1:]:
        where = f"{first.where} and {root.where}"
        for field in sorted((first.record.keys() | root.record.keys()) - _OF_A_GPU):
            ours, theirs = first.record.get(field), root.record.get(field)
            if ours != theirs:
                yield _difference(f"{field}: {ours!r} and {theirs!r}", where=f"build.json of {where}")
        if first.plans.keys() != root.plans.keys():
            ours, theirs = (", ".join(sorted(each.plans)) for each in (first, root))
            yield _difference(f"plans {ours} and {theirs}", where=where)
        for path in sorted(first.others.keys() ^ root.others.keys()):
            yield _difference(f"{path} is in only one of them", where=where)
        for path in sorted(first.others.keys() & root.others.keys()):
            if not _same(first.others[path], root.others[path]):
                yield _difference(f"{path} differs", where=where)


def _same(one: Path, other: Path) -> bool:
    if one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as ours, other.open("rb") as theirs:
        while chunk := ours.read(_CHUNK_BYTES):
            if chunk != theirs.read(_CHUNK_BYTES):
                return False
    return True


def _write(merged: Path, roots: Sequence[Root]) -> None:
    first = roots[0]
    for folder in first.layout.directories:
        (merged / folder).mkdir(parents=True, exist_ok=True)
    for path, source in first.others.items():
        shutil.copy(source, merged / path)
    plans: dict[str, Mapping[str, str]] = {}
    for root in roots:
        for path, about in root.plans.items():
            named = _named(path, root.gpu)
            shutil.copy(root.layout.sources[path], merged / named)
            plans[named] = about
    for model in {path.partition("/")[0] for path in first.plans}:
        _choose_by_capability(merged / model / CONFIG_FILE, roots, model)
    record = {**first.record, "gpu": [root.gpu for root in roots], "plans": dict(sorted(plans.items()))}
    (merged / BUILD_FILE).write_text(json.dumps(record, indent=2) + "\n")


def _choose_by_capability(path: Path, roots: Sequence[Root], model: str) -> None:
    config = read_config(path)
    for root in roots:
        capability = gpu_named(root.gpu).compute_capability
        for plan in root.plans:
            if plan.partition("/")[0] == model:
                config.cc_model_filenames[capability] = posixpath.basename(_named(plan, root.gpu))
    write_config(config, path)


def _named(path: str, gpu: str) -> str:
    """Return the path of a GPU's plan, such as encoder/1/model-A10G.plan."""
    stem, suffix = posixpath.splitext(path)
    return f"{stem}-{gpu}{suffix}"


def _difference(what: str, *, where: str) -> Problem:
    return Problem(
        what=what,
        where=where,
        expected="roots that differ only in their plans",
        why="all GPUs share the rest of the merged artifact",
        fix="rebuild them from the same sources for the same release",
        rule="merge-difference",
    )


def _problem(what: str, *, where: str, expected: str) -> Problem:
    return Problem(
        what=what,
        where=where,
        expected=expected,
        fix="run fleet build NAME --gpu A10G -o a10g, the same on the other GPU, then fleet merge a10g/NAME "
        "l4/NAME -o merged",
        rule="merge-roots",
    )
