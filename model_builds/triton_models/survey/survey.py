"""Checks of thousands of declarations in separate processes, in parallel with the caller's other work.

Reading one takes a millisecond, so a few are read in the caller's process. Thousands would take most of a
synthesis, which uses a single processor. Declarations that passed before and have not changed are not read.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from triton_models.base.errors import FleetError, Problem
from triton_models.declare.reading import FORM_MARK, FolderReader
from triton_models.declare.variables import environment_of_a_build, variables_read
from triton_models.facts.releases import Release
from triton_models.facts.releases import release as release_named
from triton_models.survey.result_cache import (
    CachedResult,
    circumstances,
    folder_digests,
    read_cache,
    values_of,
    write_cache,
)
from triton_models.survey.servable import CheckedDeclaration, check_declaration, problems_together

# Starting a process takes as long as reading this many declarations.
_LEAST_FOR_A_PROCESS = 150

# Leave a processor to the caller, which waits for the result only after its own work.
_NICENESS = 5

_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from triton_models.survey.survey import main; main()"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """The result of reading a declaration.

    Attributes:
        checked: Its problems and its names.
        forms: The names of the forms in its folder.
        variables: The environment variables that its folder reads.
    """

    checked: CheckedDeclaration
    forms: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> ReadResult:
        """Return the result from its JSON-ready data."""
        return cls(
            checked=CheckedDeclaration.of(document["checked"]),
            forms=tuple(document["forms"]),
            variables=tuple(document["variables"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The declarations that one process reads.

    Attributes:
        names: The models: folders, or `folder:form`.
        models: The folder that holds their folders.
        release: The name of the Triton release that serves them.
        gpu: True if GPUs serve them, with plans for models declared for TensorRT.
        given: The environment variables that a build sets.
    """

    names: tuple[str, ...]
    models: str
    release: str
    gpu: bool
    given: Mapping[str, str]

    def results(self) -> list[ReadResult]:
        """Read and check the declarations in this process."""
        release, reader = release_named(self.release), FolderReader(Path(self.models))
        with environment_of_a_build(self.given):
            return [self._result(name, release, reader) for name in self.names]

    def _result(self, name: str, release: Release, reader: FolderReader) -> ReadResult:
        models, folder = Path(self.models), _folder(name)
        try:
            declared = reader.folder(name)
            build = declared.asked(name)
        except FleetError as error:
            return ReadResult(checked=CheckedDeclaration(problems=error.problems))
        checked = check_declaration(build, source=models / folder, release=release, gpu=self.gpu)
        variables = variables_read(models / folder)
        # Of this shell, which no build job has.
        ours = {os.environ.get(each) for each in variables if each not in self.given}
        return ReadResult(
            checked=replace(
                checked,
                elsewhere=tuple(each for each in checked.elsewhere if each not in ours),
                objects=tuple(each for each in checked.objects if each not in ours),
            ),
            forms=tuple(form.name for form in declared.forms.values()),
            variables=tuple(sorted(variables)),
        )


class Survey:
    """Declarations under check, in the background if there are many.

    Attributes:
        names: The models: folders, or `folder:form`; without duplicates.

    Args:
        names: The models: folders, or `folder:form`; duplicates are dropped.
        source: The folder that holds models/.
        files: The digest of each file in it: see `triton_models.base.source_files.contents`.
        release: The Triton release that serves them.
        gpu: True if GPUs serve them, with plans for models declared for TensorRT.
        given: The environment variables that a build sets, such as the addresses of weights.
        processes: The maximum number of processes; by default one per processor.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        source: Path,
        files: Mapping[str, str],
        release: Release,
        gpu: bool,
        given: Mapping[str, str],
        processes: int | None = None,
    ) -> None:
        self.names = tuple(dict.fromkeys(names))
        self._source, self._given = source, given
        self._circumstances = circumstances(files, release=release.name, gpu=gpu)
        self._digests = folder_digests(files)
        recalled = read_cache(source, self._circumstances)
        self._known = {
            name: recalled[name]
            for name in self.names
            if name in recalled and recalled[name].is_still(self._digests, _folder(name), given=given)
        }
        unknown = tuple(name for name in self.names if name not in self._known)
        each = max(-(-len(unknown) // (processes or os.cpu_count() or 1)), _LEAST_FOR_A_PROCESS)
        self._batches = [
            Batch(
                names=unknown[first : first + each],
                models=str((source / "models").absolute()),
                release=release.name,
                gpu=gpu,
                given=given,
            )
            for first in range(0, len(unknown), each)
        ]
        few = len(self._batches) <= 1
        self._processes = [] if few else [_started(batch) for batch in self._batches]
        self._results: list[CheckedDeclaration] | None = None
        weakref.finalize(self, _end, self._processes)

    def problems(self) -> Iterator[Problem]:
        """Wait for the check, and yield the problems of the declarations.

        The problems of single declarations come first, in the order of names, then those of several together.

        Raises:
            FleetError: A process ended before it had read its declarations.
        """
        return problems_together(self.results())

    def results(self) -> Sequence[CheckedDeclaration]:
        """Wait for the check, and return the result of each declaration, in the order of their names.

        Raises:
            FleetError: A process ended before it had read its declarations.
        """
        if self._results is None:
            read = dict(self._batch_results())
            self._cache(read)
            found = {name: cached.checked for name, cached in self._known.items()}
            found |= {name: each.checked for name, each in read.items()}
            self._results = [found[name] for name in self.names]
        return self._results

    def _cache(self, read: Mapping[str, ReadResult]) -> None:
        good = {
            name: CachedResult(
                digest=self._digests[_folder(name)],
                checked=each.checked,
                forms=each.forms,
                variables=values_of(each.variables, given=self._given),
            )
            for name, each in read.items()
            if not each.checked.problems
        }
        if good:
            write_cache(self._source, self._circumstances, {**self._known, **good})

    def _batch_results(self) -> Iterator[tuple[str, ReadResult]]:
        for number, batch in enumerate(self._batches):
            read = _result_of(batch, self._processes[number]) if self._processes else batch.results()
            yield from zip(batch.names, read, strict=True)


def main() -> None:
    """Read a batch from standard input and write the results to standard output."""
    results = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # declarations may print to standard output
    gc.disable()  # the process ends before there is garbage worth collecting
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    batch = json.load(sys.stdin)
    read = Batch(**{**batch, "names": tuple(batch["names"])}).results()
    with results:
        json.dump([asdict(each) for each in read], results)


def _folder(name: str) -> str:
    return name.partition(FORM_MARK)[0]


def _started(batch: Batch) -> subprocess.Popen[bytes]:
    """Start a process that reads a batch."""
    with tempfile.TemporaryFile("w+") as asked:  # a pipe may not hold thousands of names
        json.dump(asdict(batch), asked)
        asked.seek(0)
        return subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *sys.path], stdin=asked, stdout=subprocess.PIPE
        )


def _result_of(batch: Batch, process: subprocess.Popen[bytes]) -> list[ReadResult]:
    results, _ = process.communicate()
    if process.returncode:
        raise FleetError([_unread(batch, process.returncode)])
    return [ReadResult.of(each) for each in json.loads(results)]


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End the processes whose results are no longer needed."""
    for process in processes:
        with contextlib.suppress(OSError):
            process.kill()
        with process:
            pass


def _unread(batch: Batch, status: int) -> Problem:
    how = f"of signal {-status}" if status < 0 else f"with the exit code {status}"
    return Problem(
        what=f"the process that read {len(batch.names):,} declarations ended {how}",
        where=f"{batch.models}, from {batch.names[0]} to {batch.names[-1]}",
        expected="declarations without side effects on their process",
        why="their models could not be checked",
        fix="check its output for a build.py that ends the process or crashes a library",
        rule="survey",
    )
