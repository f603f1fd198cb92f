"""What a model needs, estimated from its files and from what is on record about its backend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from triton_models.artifact.compared import COMPARED
from triton_models.artifact.layout import ARCHIVE_SUFFIX, Layout, model_of_key, read_layout
from triton_models.artifact.pbtxt import CONFIG_FILE, GPU_MEMORY, parse_config, text_of
from triton_models.artifact.profile import MIB, UNKNOWN, Profile, Range
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError
from triton_models.base.suggest import did_you_mean
from triton_models.check.hidden_memory import hidden_memory
from triton_models.check.live_values import LiveValues, live_values_of_file, recorded_live_values
from triton_models.check.python import regions
from triton_models.facts.gpu_memory import (
    ARENA_OF_CONVOLUTIONS,
    ARENA_OF_OTHERS,
    ARENA_OF_UNKNOWN_MIB,
    BACKENDS,
)
from triton_models.facts.tensorrt import ENGINE_AT_LOAD_S

PROFILE = Check(id="plan-models", source=FROM_ARGUMENTS)

_MB = 10**6
_ROWS = 32
_HALF, _SINGLE = 2, 4  # bytes of a number


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """What is on record about the models of a backend.

    GPU memory is besides the weights: for each instance, and for each row of its largest batch. The time of a
    load is besides the time for its bytes. Host memory is that of each instance; none is on record.
    """

    memory_mib: tuple[float, float, float] = (0, 0, 0)
    row_mib: tuple[float, float, float] = (0, 0, 0)
    load_s: tuple[float, float, float] = (0, 0, 0)
    host_mib: tuple[float, float, float] = (0, 0, 0)
    source: str


_RECORD = "public notebooks of multi-model endpoints on GPUs, 2022 and 2023"
_GUESS = "no record, a guess"

ON_RECORD = {
    # 33 to 67 MiB besides the weights for transformers, 172 for ResNet-50.
    "pytorch": Backend(
        memory_mib=(33, BACKENDS["pytorch"].model, 172),
        load_s=(0.1, 0.2, 0.6),
        host_mib=(2, 15, 200),
        source=_RECORD,
    ),
    # 3 to 25 MiB per row of the largest batch.
    "tensorrt": Backend(
        row_mib=(3, BACKENDS["tensorrt"].row, 25),
        load_s=(0.4, 0.9, 2.0),
        host_mib=(1, 10, 100),
        source=_RECORD,
    ),
    # A forest takes a part of the server's pool.
    "fil": Backend(load_s=(0.05, 0.1, 1.0), host_mib=(1, 5, 200), source="the size of its file"),
    # What the code and the pipeline take is theirs: they have to declare it.
    "dali": Backend(memory_mib=(0, 200, 1500), load_s=(0.1, 0.5, 2.0), host_mib=(10, 50, 300), source=_GUESS),
    "python": Backend(
        memory_mib=(0, 20, 1000), load_s=(0.5, 2.0, 10.0), host_mib=(15, 40, 500), source=_GUESS
    ),
    # Ensembles.
    "": Backend(source="none of a GPU"),
    # None is on record; its libraries are PyTorch's.
    "onnxruntime": Backend(
        memory_mib=(20, 60, 400), load_s=(0.1, 0.4, 2.0), host_mib=(2, 15, 200), source=_GUESS
    ),
}
"""The backends whose models can be estimated, by name."""

_SESSION_MIB = (10, 20, 200)
"""A session of ONNX Runtime besides its weights and its arena, with cuDNN's workspace: a guess."""

_NO_GPU = ""
_WITHOUT_GPU = ("ensemble", "identity")

# Of a model on the CPU, what its weights become.
_ON_CPU = (1.0, 1.2, 2.5)

# A 46.6 MB TorchScript model takes 0.80 s in all, one of 499 MB 7.24 s, and a 29.2 MB plan 1.27 s.
_FETCH_BYTES_PER_S = (150 * _MB, 75 * _MB, 30 * _MB)

# Warm answers of these models took 7 to 12 ms, of which the platform and the network had 2 to 3.
BUSY_S = Range(values=(0.003, 0.007, 0.02), source=_RECORD)


def estimated(name: str, *, size: float, backend: str, rows: int = _ROWS) -> Profile:
    """Estimate the profile of a model with one instance from the bytes of its files.

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
    source = f"estimated, {about.source}"
    memory, row, host = about.memory_mib, about.row_mib, about.host_mib
    return Profile(
        name=name,
        backends=frozenset({backend}),
        disk=size,
        memory=Range.of(lambda end: size + (memory[end] + row[end] * rows) * MIB, source),
        host=Range.of(lambda end: host[end] * MIB, f"estimated, {_GUESS}"),
        shared=Range.measured(0.0, "none"),
        fetch_s=Range.of(lambda end: size / _FETCH_BYTES_PER_S[end], source),
        load_s=Range.of(lambda end: about.load_s[end], source),
        busy_s=BUSY_S,
    )


def alike(count: int, *, size: float, backend: str) -> Sequence[Profile]:
    """Return the profiles of a number of models of one size."""
    return [estimated(f"model-{number}", size=size, backend=backend) for number in range(1, count + 1)]


def of_folder(path: Path) -> Sequence[Profile]:
    """Estimate the models of a folder, each a directory or an archive with its path as the name.

    Raises:
        FleetError: The folder has no models, or one of them cannot be estimated.
    """
    if not path.is_dir():
        fix = "name a folder of models, or models of a size, such as 300x200MB"
        raise PROFILE.error(what="there is no such folder", where=str(path), fix=fix)
    profiles = [
        replace(of_layout(read_layout(model)), name=model_of_key(model.relative_to(path).as_posix()))
        for model in _models_in(path)
    ]
    if not profiles:
        raise PROFILE.error(
            what="there are no models",
            where=str(path),
            fix=f"name a folder whose folders have a {CONFIG_FILE}, or that has {ARCHIVE_SUFFIX} files",
        )
    return profiles


def _models_in(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.endswith(ARCHIVE_SUFFIX) or (path.is_dir() and any(path.rglob(CONFIG_FILE))):
            yield path
        elif path.is_dir() and not path.is_symlink():
            yield from _models_in(path)


def of_layout(layout: Layout) -> Profile:
    """Estimate a model as the sum of those that it consists of.

    Raises:
        FleetError: Nothing is on record about a backend, or a declared memory is not a number.
    """
    parts = [_of_config(layout, path) for path in layout.texts if Path(path).name == CONFIG_FILE]
    together = estimated(layout.model, size=float(sum(layout.files.values())), backend=_NO_GPU)
    if not parts:
        return together
    return replace(
        together,
        backends=frozenset().union(*(part.backends for part in parts)),
        memory=Range.total([part.memory for part in parts]),
        host=Range.total([part.host for part in parts]),
        shared=Range.total([part.shared for part in parts]),
        load_s=Range.total([part.load_s for part in parts]),
    )


def _of_config(layout: Layout, place: str) -> Profile:
    """Estimate the model of a configuration: its instances take its memory each."""
    where = layout.place(place)
    config = parse_config(text_of(layout.texts[place]), where=where)
    folder = place.removesuffix(CONFIG_FILE)
    size = float(sum(size for path, size in layout.files.items() if path.startswith(folder)))
    backend, rows = config.backend or config.platform.partition("_")[0], max(1, config.max_batch_size)
    counts = [(max(1, group.count), group.kind != group.KIND_CPU) for group in config.instance_group]
    counts = counts or [(1, True)]
    instances, on_gpu = sum(count for count, _ in counts), sum(count for count, has_gpu in counts if has_gpu)
    declared = _declared_mib(config, where)
    has_none = backend in _WITHOUT_GPU or (declared is not None and backend not in ON_RECORD)
    known = _NO_GPU if has_none else backend
    profile = estimated(layout.model, size=size, backend=known, rows=rows)
    hidden = hidden_memory(layout, folder, config) if backend == "python" and declared is None else None
    if declared is not None:
        memory = Range.measured(declared * MIB * on_gpu, f"{GPU_MEMORY} of its configuration")
    elif hidden is not None:
        memory = replace(_times(profile.memory, max(1, on_gpu)), source=f"{UNKNOWN}{hidden}")
    elif known == _NO_GPU or not on_gpu:
        memory = Range.measured(0.0, "none of a GPU")
    else:
        one = _of_onnx(layout, folder, size, rows) if known == "onnxruntime" else profile.memory
        memory = _times(one, on_gpu)
    host, load_s, shared = profile.host, profile.load_s, profile.shared
    accelerators = config.optimization.execution_accelerators.gpu_execution_accelerator
    if on_gpu and backend == "onnxruntime" and any(entry.name == "tensorrt" for entry in accelerators):
        engine = Range.of(lambda end: ENGINE_AT_LOAD_S[end], "facts.tensorrt: ENGINE_AT_LOAD_S")
        load_s = Range.total([load_s, engine])
    if not on_gpu:
        host = Range.of(lambda end: profile.host.values[end] + size * _ON_CPU[end], profile.host.source)
    if backend == "python":
        region = regions(config)
        shared = Range.measured(float(region.count * region.each), "its largest batches")
    return replace(
        profile,
        backends=frozenset({known if on_gpu else _NO_GPU}),
        memory=memory,
        host=_times(host, instances),
        load_s=load_s,
        shared=shared,
    )


def _of_onnx(layout: Layout, folder: str, size: float, rows: int) -> Range:
    """Estimate an instance of an ONNX model: its weights, its arena of the largest batch, and its session."""
    live = _live_values(layout, folder, rows)
    if live is None:
        mib = ON_RECORD["onnxruntime"].memory_mib
        return Range.of(
            lambda end: size + (mib[end] + ARENA_OF_UNKNOWN_MIB[end] * rows) * MIB,
            f"estimated widely: the values of its graph with {rows} rows are unknown, so measure it",
        )
    factors = ARENA_OF_CONVOLUTIONS if live.convolutional else ARENA_OF_OTHERS
    return Range.of(
        lambda end: size + _SESSION_MIB[end] * MIB + factors[end] * live.bytes,
        f"estimated, the values of its graph with {rows} rows",
    )


def _live_values(layout: Layout, folder: str, rows: int) -> LiveValues | None:
    """Return the values that are alive at once, as the build recorded them or by the file."""
    record = layout.build()
    networks, name = record.get("networks"), folder.rstrip("/")
    if isinstance(networks, dict):
        width = _HALF if _precisions(record, name) in (["fp16"], ["bf16"]) else _SINGLE
        recorded = recorded_live_values(networks.get(name), batch=rows, width=width)
        if recorded is not None:
            return recorded
    files = sorted(path for path in layout.files if path.startswith(folder) and path.endswith(".onnx"))
    if not files:
        return None
    with suppress(OSError, FleetError), layout.opened(files[-1]) as content:
        return live_values_of_file(content, batch=rows)
    return None


def _precisions(record: Mapping[str, Any], name: str) -> Any:
    """Return the precisions of a network, or those of all in the build if it was not compared."""
    compared = record.get(COMPARED)
    known = compared.get(name) if isinstance(compared, dict) else None
    return [known.get("precision")] if isinstance(known, dict) else record.get("precisions")


def _times(one: Range, count: int) -> Range:
    return Range.of(lambda end: one.values[end] * count, one.source)


def _declared_mib(config: Any, where: str) -> float | None:
    """Return the memory that a configuration declares for an instance; None if it declares none."""
    if GPU_MEMORY not in config.parameters:
        return None
    text = config.parameters[GPU_MEMORY].string_value
    if text.isdecimal():
        return float(text)
    fix = "give an integer of MiB"
    raise PROFILE.error(what=f"{GPU_MEMORY} is {text!r}", where=where, fix=fix)
