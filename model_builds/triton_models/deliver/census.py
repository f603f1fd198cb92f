"""`fleet census`: measure what built models take of a GPU, of the host, and of time.

Each model is loaded, asked and unloaded again and again by a local Triton server. In the first cycle, a copy
under another name is loaded next to it: what the copy takes is what each further model takes, without the
libraries that the first one of a backend brings. GPU memory is nvidia-smi's, as Triton knows nothing of the
memory of PyTorch and of Python, so nothing else may use the GPU meanwhile.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from triton_models.artifact.layout import read_layout
from triton_models.artifact.pack.renaming import renamed
from triton_models.artifact.pbtxt import CONFIG_FILE, read_config
from triton_models.artifact.plans import is_portable, is_rehearsal
from triton_models.artifact.profile import MIB, Profile, Range
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError, Problem
from triton_models.base.outcome import progress
from triton_models.base.tables import Column, numbers, output_width, table
from triton_models.builds.tensorrt.machine import query_gpus
from triton_models.check.estimate import of_layout
from triton_models.declare.declaration import Example
from triton_models.deliver.live_census import LiveCensus, live_census
from triton_models.deliver.options import CensusOptions
from triton_models.deliver.verify.comparing import answered, served_model
from triton_models.deliver.verify.verify import MAX_BYTES, configure, declaration_of, examples_of, repeated

if TYPE_CHECKING:
    from triton_models.deliver.verify.server import Server

CENSUS = Check(id="census", source=FROM_ARGUMENTS)

CYCLES = 3
_LEAKS_FROM = 10  # cycles; what a server keeps for later settles in fewer
_LEAK_BYTES = 1 << 20  # per cycle
_ASKS = 3
_SETTLE_S, _LOOK_S = 2.0, 0.1
_COPY = "-second"
_PARTS = ("compute_input", "compute_infer", "compute_output")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Bytes in use: of the fullest GPU, of the server's own host memory, and of its regions in /dev/shm.

    Each model is on all GPUs of a machine.
    """

    gpu: float
    host: float
    shared: float

    def since(self, before: Usage) -> Usage:
        """Return what has been added."""
        return Usage(
            gpu=self.gpu - before.gpu, host=self.host - before.host, shared=self.shared - before.shared
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a model took.

    Attributes:
        on: The GPU with its driver; "" without one.
        release: The Triton server's version.
        first: What the first load took, with the libraries of its backend.
        each: What a second copy took.
        load_s: The seconds of each load.
        busy_s: The seconds of computing a request, by its rows.
        tracked: GPU bytes that Triton's own statistics know of.
        leaks: Bytes of each kind that more were in use after each cycle, if there were many.
    """

    model: str
    on: str
    release: str
    first: Usage
    each: Usage
    load_s: tuple[float, ...]
    busy_s: Mapping[int, float]
    tracked: float
    leaks: Mapping[str, float]

    def profile(self, estimated: Profile) -> Profile:
        """Return an estimated profile with what was measured on a GPU; unchanged without one."""
        if not self.on:
            return estimated
        source = f"measured on {self.on}, Triton {self.release}"
        least, most = (self.busy_s[rows] for rows in (min(self.busy_s), max(self.busy_s)))
        return replace(
            estimated,
            memory=Range.measured(max(0.0, self.each.gpu), source),
            host=Range.measured(max(0.0, self.each.host), source),
            shared=Range.measured(max(0.0, self.each.shared), source),
            load_s=Range.seen(self.load_s[1:], source),
            # Most requests have a row; a full batch is the most.
            busy_s=Range(values=(min(least, most), least, max(least, most)), source=source),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready data, in MiB and seconds."""

        def mib(usage: Usage) -> dict[str, float]:
            return {name: round(getattr(usage, name) / MIB, 1) for name in ("gpu", "host", "shared")}

        return {
            "on": self.on or "CPU",
            "release": self.release,
            "first_mib": mib(self.first),
            "each_mib": mib(self.each),
            "load_s": [round(each, 3) for each in self.load_s],
            "busy_s": {str(rows): float(f"{seconds:.4g}") for rows, seconds in self.busy_s.items()},
            "triton_memory_usage_mib": round(self.tracked / MIB, 1),
            "leaks_mib_per_cycle": {name: round(each / MIB, 2) for name, each in self.leaks.items()},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """The outcome of `fleet census`: what each root took, or its problems."""

    found: Mapping[str, Measured | tuple[Problem, ...]]

    @property
    def exit_code(self) -> int:
        """0 if every model was measured and none leaks, otherwise 1."""
        sound = (isinstance(each, Measured) and not each.leaks for each in self.found.values())
        return 0 if all(sound) else 1

    def as_dict(self) -> dict[str, Any]:
        """Return each path with its figures or its problems, as JSON-ready data."""
        return {
            "paths": {
                path: each.as_dict()
                if isinstance(each, Measured)
                else {"problems": [problem.as_dict() for problem in each]}
                for path, each in self.found.items()
            }
        }

    def lines(self) -> Iterator[str]:
        """Yield the problems in full, a table of all models, and what leaks."""
        for each in self.found.values():
            if not isinstance(each, Measured):
                for problem in each:
                    yield from (str(problem), "")
        measured = [each for each in self.found.values() if isinstance(each, Measured)]
        if not measured:
            return
        where = f"{measured[0].on or 'this CPU'}, Triton {measured[0].release}"
        yield f"Measured on {where}; MiB of each further copy:"
        figures: Mapping[str, Callable[[Measured], str]] = {
            "GPU": lambda each: f"{each.each.gpu / MIB:,.0f}",
            "host": lambda each: f"{each.each.host / MIB:,.0f}",
            "shared": lambda each: f"{each.each.shared / MIB:,.1f}",
            "libraries": lambda each: f"{max(0.0, each.first.gpu - each.each.gpu) / MIB:,.0f}",
            "load": lambda each: f"{statistics.median(each.load_s[1:]):.2f} s",
            "a row": lambda each: f"{1000 * each.busy_s[min(each.busy_s)]:.1f} ms",
            "most rows": lambda each: f"{max(each.busy_s)}: {1000 * each.busy_s[max(each.busy_s)]:.1f} ms",
        }
        models = Column(title="model", cells=[each.model for each in measured])
        yield from table([models, *numbers(measured, figures)], width=output_width())
        for each in measured:
            for what, leaked in each.leaks.items():
                yield f"{each.model} leaks {leaked / MIB:.1f} MiB of {what} memory per load"


def run(options: CensusOptions) -> Census | LiveCensus:
    """Run `fleet census ROOT...` on this machine, or `fleet census --endpoint NAME [MODEL...]`."""
    if options.endpoint is not None:
        names = [str(each) for each in options.roots]
        return live_census(options.endpoint, names, repository=options.repository)
    if not options.roots:
        fix = "name folders that `fleet build` wrote, or an endpoint with --endpoint"
        raise CENSUS.error(what="the models are missing", where="the command line", fix=fix)
    return _here(options)


def _here(options: CensusOptions) -> Census:
    """Measure all roots with one server; a failed root does not stop the others."""
    from triton_models.deliver.verify.server import local_server

    if not options.here and not _gpus():
        raise CENSUS.error(
            what="there is no GPU",
            where="this machine",
            why="the memory of a GPU is what limits the number of models",
            fix="run this in the Triton image on the GPU, or measure the host's memory and times with --here",
        )
    found: dict[str, Measured | tuple[Problem, ...]] = {}
    with local_server(options.tritonserver, log=options.log) as server:
        for root in options.roots:
            progress(f"measuring {root} ...")
            try:
                declaration = declaration_of(root, options.models)
                examples = list(map(declaration.as_sent, examples_of(declaration)))
                found[str(root)] = measure(root, examples, server=server, cycles=options.cycles)
            except FleetError as error:
                found[str(root)] = error.problems
    return Census(found=found)


def measured_profile(
    root: Path, examples: Sequence[Example], *, server: Server, cpu: bool = False
) -> Profile | None:
    """Return what a model takes on this machine's GPU; None if it is not measured.

    Not measured are stand-ins, as in a rehearsal, and builds for CPUs, whose times are not a GPU's: their
    endpoint may be another machine than that of the build.
    """
    layout = read_layout(root)
    if cpu or is_rehearsal() or is_portable(layout) or not _gpus():
        return None
    try:
        return measure(root, examples, server=server).profile(of_layout(layout))
    except FleetError:
        return None


def measure(root: Path, examples: Sequence[Example], *, server: Server, cycles: int = CYCLES) -> Measured:
    """Load, ask and unload a model, again and again, and once with a copy next to it.

    Raises:
        FleetError: The model does not load, or answers with an error.
    """
    record = read_layout(root).build()
    model, requests = served_model(root, record), _requests(root, record, examples)
    configure(server, record)
    server.start()
    begin = _settled(server)
    loads, rests = list[float](), list[Usage]()
    with tempfile.TemporaryDirectory(prefix="fleet-census-") as folder:
        copy = _copied(root, Path(folder), model)
        for cycle in range(max(2, cycles)):
            since = time.perf_counter()
            with server.loaded(root, model):
                loads.append(time.perf_counter() - since)
                busy = {rows: _busy(model, each, server) for rows, each in requests.items()}
                if not cycle:
                    tracked = _tracked(server)
                    one = _settled(server)
                    with server.loaded(copy, model + _COPY):
                        for each in requests.values():
                            _ask(model + _COPY, each, server)
                        two = _settled(server)
            rests.append(_settled(server))
    driver = [f"{name}, driver {version}" for name, version in query_gpus("name", "driver_version")]
    return Measured(
        model=model,
        on=driver[0] if driver else "",
        release=str(_get("/v2", server).get("version", "")),
        first=one.since(begin),
        each=two.since(one),
        load_s=tuple(loads),
        busy_s=busy,
        tracked=tracked,
        leaks=leaks(rests),
    )


def _gpus() -> list[list[str]]:
    return query_gpus("name")


def _requests(root: Path, record: Mapping[str, Any], examples: Sequence[Example]) -> dict[int, Example]:
    """Return a request of a row and one of the most rows, by rows, from the smallest example."""
    if not examples:
        raise CENSUS.error(
            what="it has no examples",
            where=str(root),
            why="much of a model's memory is taken by its first requests",
            fix="add an example to its declaration",
        )

    def size(example: Example) -> int:
        return sum(np.asarray(each).nbytes for each in example.inputs.values())

    smallest = min(examples, key=lambda each: (each.sequence, size(each)))
    most = read_config(root / served_model(root, record) / CONFIG_FILE).max_batch_size
    if smallest.sequence or not most or not smallest.inputs:
        return {1: smallest}
    rows = max(1, len(next(iter(smallest.inputs.values()))))
    most = max(1, min(most, MAX_BYTES // max(1, size(smallest) // rows)))

    return {count: replace(smallest, inputs=repeated(smallest.inputs, count)) for count in sorted({1, most})}


def _copied(root: Path, folder: Path, model: str) -> Path:
    """Write a root whose models have other names, with links to its files."""
    layout = read_layout(root)
    names = {each: each + _COPY for each in layout.children("") if f"{each}/{CONFIG_FILE}" in layout.texts}
    layout = renamed(layout, {**names, model: model + _COPY})
    for path in layout.files:
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if path in layout.texts:
            place.write_bytes(layout.texts[path])
        else:
            place.symlink_to(layout.sources[path].absolute())
    for path in layout.directories:
        (folder / path).mkdir(parents=True, exist_ok=True)
    return folder


def _ask(model: str, example: Example, server: Server) -> None:
    answered(
        example,
        lambda inputs, parameters: server.infer(
            model, inputs, parameters=parameters, where=f"model {model!r}"
        ),
    )


def _busy(model: str, example: Example, server: Server) -> float:
    """Return the seconds of computing a request, in all models that take part in it."""
    _ask(model, example, server)  # which may compile or allocate
    before = _computed_ns(server)
    for _ in range(_ASKS):
        _ask(model, example, server)
    return (_computed_ns(server) - before) / _ASKS / 1e9


def _computed_ns(server: Server) -> int:
    stats = _get("/v2/models/stats", server).get("model_stats", ())
    return sum(each["inference_stats"][part]["ns"] for each in stats for part in _PARTS)


def _tracked(server: Server) -> float:
    stats = _get("/v2/models/stats", server).get("model_stats", ())
    usages = [usage for each in stats for usage in each.get("memory_usage", ())]
    return float(sum(int(usage["byte_size"]) for usage in usages if usage.get("type") == "GPU"))


def _get(path: str, server: Server) -> Mapping[str, Any]:
    found: Mapping[str, Any] = server.request("GET", path, limit_s=10.0).json()
    return found


def _settled(server: Server) -> Usage:
    """Return what is in use, once it no longer changes: a server frees memory a little later."""
    deadline, last = time.monotonic() + _SETTLE_S, _usage(server)
    while time.monotonic() < deadline:
        time.sleep(_LOOK_S)
        now = _usage(server)
        if now == last:
            break
        last = now
    return last


def _usage(server: Server) -> Usage:
    host, shared = server.memory()
    used = [float(text.split()[0]) for text, *_ in query_gpus("memory.used") if text[:1].isdigit()]
    return Usage(gpu=max(used, default=0.0) * MIB, host=host, shared=shared)


def leaks(rests: Sequence[Usage]) -> Mapping[str, float]:
    """Return what grows with each cycle, by the median of all slopes, from the third cycle on."""
    if len(rests) < _LEAKS_FROM:
        return {}
    after = list(enumerate(rests))[2:]
    found = {}
    for name in ("gpu", "host", "shared"):
        slopes = [
            (getattr(late, name) - getattr(early, name)) / (to - begin)
            for (begin, early), (to, late) in combinations(after, 2)
        ]
        slope = statistics.median(slopes)
        if slope > _LEAK_BYTES:
            found[name] = slope
    return found
