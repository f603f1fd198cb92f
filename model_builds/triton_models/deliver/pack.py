"""`fleet pack`: check models, then pack all of them or none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from triton_models.artifact.layout import Layout
from triton_models.artifact.pack.pack import Artifact, layout_to_pack, packing_problems, write
from triton_models.artifact.pack.renaming import copies
from triton_models.base import options as opt
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.base.outcome import JsonReady, progress
from triton_models.check.check import check_layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed(JsonReady):
    """The outcome of `fleet pack`."""

    artifacts: tuple[Artifact, ...]

    def lines(self) -> Iterator[str]:
        """Yield the artifacts' paths, one per line."""
        for artifact in self.artifacts:
            yield str(artifact.path)


@dataclass(frozen=True, kw_only=True)
class PackOptions:
    """Options of `fleet pack`."""

    paths: Sequence[opt.AnyPath] = opt.argument("a built model or a Triton model directory", nargs="+")
    output: opt.Folder = opt.option("the folder to write to", "-o", "--output", required=True)
    copies: opt.Count = opt.option(
        "pack each model N times, as NAME-1, NAME-2, ..., to try many models on one endpoint", default=0
    )


def run(options: PackOptions) -> Packed:
    """Run `fleet pack PATH... -o DIR`; nothing is written if a model cannot be packed or served."""
    layouts: list[Layout] = []
    problems: list[Problem] = []
    for path in options.paths:
        try:
            layout = layout_to_pack(path, output=options.output)
        except FleetError as error:
            problems.extend(error.problems)
        else:
            problems.extend([*check_layout(layout), *packing_problems(layout)])
            layouts.append(layout)
    raise_if_any(problems)
    artifacts = []
    for layout in layouts:
        for each in copies(layout, options.copies) if options.copies else [layout]:
            progress(f"packing {each.model} ({sum(each.files.values()) / 1e6:.1f} MB)")
            artifacts.append(write(each, output=options.output))
    return Packed(artifacts=tuple(artifacts))
