"""Cold starts of forms of ResNet-50, as in AWS's post: tuned ONNX before untuned, and TorchScript."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.ratio import Bench, Ratio
from triton_models.spec import load_builds
from triton_rehearsal.compare.command import compare_locally

TUNED, OTHERS = "resnet50", {"resnet50:untuned": "ONNX untuned", "resnet50:torchscript": "TorchScript"}


def ratios(bench: Bench) -> Iterator[Ratio]:
    """The first answer of each form on a new server. On a CPU, only their order is that of a GPU."""
    others = dict(list(OTHERS.items())[: 1 if bench.short else None])
    names = [TUNED, *others]
    builds = dict(zip(names, load_builds(names), strict=True))
    compared = compare_locally(builds, requests=1, concurrency=1, cold_starts=1 if bench.short else 5)
    cold = {model.name: [start.total_s for start in model.cold] for model in compared.models}
    for name, title in others.items():
        pairs = list(zip(cold[TUNED], cold[name], strict=True))
        yield Ratio(subject="first answer of ResNet-50", ours="ONNX tuned", theirs=title, pairs=pairs)
