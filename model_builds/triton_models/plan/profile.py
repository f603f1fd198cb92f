"""What a model needs: memory, disk and times, each as a range with its source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from triton_models.artifact.layout import ARCHIVE_SUFFIX, Layout, read_layout
from triton_models.artifact.pbtxt import CONFIG_FILE, GPU_MEMORY, parse_config, text_of
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.suggest import did_you_mean
from triton_models.facts.gpu_memory import BACKENDS

PROFILE = Check(id="plan-models", source=FROM_ARGUMENTS)

MIB, MB = 1 << 20, 10**6
LEAST, LIKELY, MOST = range(3)
"""The ends of a range, and the figure between them."""

_ROWS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A figure: at least, likely and at most, and where it comes from."""

    values: tuple[float, float, float]
    source: str

    @classmethod
    def measured(cls, value: float, source: str) -> Range:
        """Return a figure that was measured, or given by the user."""
        return cls(values=(value, value, value), source=source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a model needs.

    Attributes:
        name: The model's name.
        backends: Those that it needs, each of which brings its libraries once.
        disk: The bytes of its files.
        memory: The bytes that it takes on a GPU, besides what is there for all models.
        fetch_s: Seconds of download and unpacking.
        load_s: Seconds of the load into the server.
        busy_s: Seconds for which a request keeps the GPU busy.
    """

    name: str
    backends: frozenset[str]
    disk: float
    memory: Range
    fetch_s: Range
    load_s: Range
    busy_s: Range


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """What is on record about the models of a backend.

    Attributes:
        memory_mib: GPU memory besides the weights, as in `triton_models.facts.gpu_memory`: for each model,
            and for each row of its largest batch.
        load_s: Seconds of a load, besides the time for its bytes.
    """

    memory_mib: tuple[float, float, float]
    row_mib: tuple[float, float, float]
    load_s: tuple[float, float, float]
    source: str


_RECORD = "public notebooks of multi-model endpoints on GPUs, 2022 and 2023"

ON_RECORD = {
    # 33 to 67 MiB besides the weights for transformers, 172 for ResNet-50.
    "pytorch": Backend(
        memory_mib=(33, BACKENDS["pytorch"].model, 172),
        row_mib=(0, 0, 0),
        load_s=(0.1, 0.2, 0.6),
        source=_RECORD,
    ),
    # 3 to 25 MiB per row of the largest batch.
    "tensorrt": Backend(
        memory_mib=(0, 0, 0),
        row_mib=(3, BACKENDS["tensorrt"].row, 25),
        load_s=(0.4, 0.9, 2.0),
        source=_RECORD,
    ),
    # A forest takes a part of the server's pool.
    "fil": Backend(
        memory_mib=(0, 0, 0), row_mib=(0, 0, 0), load_s=(0.05, 0.1, 1.0), source="the size of its file"
    ),
    # What the code and the pipeline take is theirs: they have to declare it.
    "dali": Backend(
        memory_mib=(0, 200, 1500), row_mib=(0, 0, 0), load_s=(0.1, 0.5, 2.0), source="no record, a guess"
    ),
    "python": Backend(
        memory_mib=(0, 20, 1000), row_mib=(0, 0, 0), load_s=(0.5, 2.0, 10.0), source="no record, a guess"
    ),
    # Ensembles, and models on CPUs.
    "": Backend(memory_mib=(0, 0, 0), row_mib=(0, 0, 0), load_s=(0, 0, 0), source="none of a GPU"),
    # None is on record; its libraries are PyTorch's.
    "onnxruntime": Backend(
        memory_mib=(20, 60, 400), row_mib=(0, 0, 0), load_s=(0.1, 0.4, 2.0), source="no record, a guess"
    ),
}
"""The backends whose models can be estimated, by name."""

_NO_GPU = ""
_WITHOUT_GPU = ("ensemble", "identity", "openvino")

# A 46.6 MB TorchScript model takes 0.80 s in all, one of 499 MB 7.24 s, and a 29.2 MB plan 1.27 s.
_FETCH_BYTES_PER_S = (150 * MB, 75 * MB, 30 * MB)

# Warm answers of these models took 7 to 12 ms, of which the platform and the network had 2 to 3.
BUSY_S = Range(values=(0.003, 0.007, 0.02), source=_RECORD)


def estimated(
    name: str, *, size: float, backend: str, rows: int = _ROWS, busy_s: float | None = None
) -> Profile:
    """Estimate the profile of a model from the bytes of its files.

    Raises:
        FleetError: Nothing is on record about the backend.
    """
    about = ON_RECORD.get(backend)
    if about is None:
        known = [each for each in ON_RECORD if each]
        otherwise = f"name one of {', '.join(known)}, or declare {GPU_MEMORY}"
        raise PROFILE.error(
            what=f"nothing is on record about the memory of models of the backend {backend!r}",
            where=f"model {name!r}",
            fix=did_you_mean(backend, known, otherwise=otherwise),
        )

    def ranged(value: Callable[[int], float]) -> Range:
        return Range(values=(value(LEAST), value(LIKELY), value(MOST)), source=f"estimated, {about.source}")

    memory, row = about.memory_mib, about.row_mib
    return Profile(
        name=name,
        backends=frozenset({backend}),
        disk=size,
        memory=ranged(lambda end: size + (memory[end] + row[end] * rows) * MIB),
        fetch_s=ranged(lambda end: size / _FETCH_BYTES_PER_S[end]),
        load_s=ranged(lambda end: about.load_s[end]),
        busy_s=BUSY_S if busy_s is None else Range.measured(busy_s, "given"),
    )


def alike(count: int, *, size: float, backend: str, busy_s: float | None = None) -> Sequence[Profile]:
    """Return the profiles of a number of models of one size."""
    return [
        estimated(f"model-{number}", size=size, backend=backend, busy_s=busy_s)
        for number in range(1, count + 1)
    ]


def of_folder(path: Path, *, busy_s: float | None = None) -> Sequence[Profile]:
    """Estimate the models of a folder, each a directory or an archive of a Triton model or an ensemble.

    Raises:
        FleetError: The folder has no models, or one of them cannot be estimated.
    """
    if not path.is_dir():
        fix = "name a folder of models, or models of a size, such as 300x200MB"
        raise PROFILE.error(what="there is no such folder", where=str(path), fix=fix)
    found = []
    for each in sorted(path.iterdir()):
        if each.name.endswith(ARCHIVE_SUFFIX) or (each.is_dir() and any(each.rglob(CONFIG_FILE))):
            found.append(_of_layout(read_layout(each), busy_s))
    if not found:
        raise PROFILE.error(
            what="there are no models",
            where=str(path),
            fix=f"name a folder whose folders have a {CONFIG_FILE}, or that has {ARCHIVE_SUFFIX} files",
        )
    return found


def _of_layout(layout: Layout, busy_s: float | None) -> Profile:
    """Estimate a model as the sum of those that it consists of."""
    places = [each for each in layout.texts if Path(each).name == CONFIG_FILE]
    parts = [_of_config(layout, each, busy_s) for each in places]
    disk = float(sum(layout.files.values()))
    together = estimated(layout.model, size=disk, backend=_NO_GPU, busy_s=busy_s)
    return replace(
        together,
        backends=frozenset().union(*(each.backends for each in parts)),
        memory=_sum([each.memory for each in parts]),
        load_s=_sum([each.load_s for each in parts]),
    )


def _of_config(layout: Layout, place: str, busy_s: float | None) -> Profile:
    """Estimate the model of a configuration: its instances on a GPU take its memory each."""
    where = layout.place(place)
    config = parse_config(text_of(layout.texts[place]), where=where)
    folder = place.removesuffix(CONFIG_FILE)
    size = sum(size for each, size in layout.files.items() if each.startswith(folder))
    backend = config.backend or config.platform.partition("_")[0]
    groups = config.instance_group
    instances = sum(max(1, each.count) for each in groups if each.kind != each.KIND_CPU) if groups else 1
    declared = _declared_mib(config, where)
    if backend in _WITHOUT_GPU or not instances or (declared is not None and backend not in ON_RECORD):
        backend = _NO_GPU
    rows = max(1, config.max_batch_size)
    found = estimated(layout.model, size=size, backend=backend, rows=rows, busy_s=busy_s)
    if declared is not None:
        memory = Range.measured(declared * MIB, f"{GPU_MEMORY} of its configuration")
    elif backend == _NO_GPU:
        memory = Range.measured(0.0, found.memory.source)
    else:
        memory = found.memory
    least, likely, most = (each * max(1, instances) for each in memory.values)
    return replace(found, memory=Range(values=(least, likely, most), source=memory.source))


def _declared_mib(config: Any, where: str) -> float | None:
    """Return the memory that a configuration declares for an instance; None if it declares none."""
    if GPU_MEMORY not in config.parameters:
        return None
    text = config.parameters[GPU_MEMORY].string_value
    if text.isdecimal():
        return float(text)
    fix = "give an integer of MiB"
    raise PROFILE.error(what=f"{GPU_MEMORY} is {text!r}", where=where, fix=fix)


def _sum(ranges: Sequence[Range]) -> Range:
    least, likely, most = (sum(each.values[end] for each in ranges) for end in (LEAST, LIKELY, MOST))
    return Range(values=(least, likely, most), source="; ".join(sorted({each.source for each in ranges})))
