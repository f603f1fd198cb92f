"""Checks of thousands of declarations in separate processes, parallel to the caller's other work.

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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from triton_models.base.errors import FleetError, Problem
from triton_models.declare.reading import FORM_MARK, read_folder
from triton_models.declare.variables import variables_read
from triton_models.facts.releases import Release
from triton_models.facts.releases import release as release_named
from triton_models.survey.found_good import (
    Good,
    circumstances,
    folder_digests,
    recall,
    remember,
    values_of,
)
from triton_models.survey.servable import Judged, judge, together

# Starting a process takes as long as reading this many declarations.
_LEAST_FOR_A_PROCESS = 150

# Leave a processor to the caller, which waits for the result only after its own work.
_NICENESS = 5

_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from triton_models.survey.survey import main; main()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The result of reading a declaration.

    Attributes:
        judged: Its problems and its names.
        forms: The names of the forms in its folder.
        variables: The environment variables that its folder reads.
    """

    judged: Judged
    forms: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Seen:
        """Return the result from its JSON-ready data."""
        return cls(
            judged=Judged.of(document["judged"]),
            forms=tuple(document["forms"]),
            variables=tuple(document["variables"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The declarations that one process reads.

    Attributes:
        names: The models: folders, or `folder:form`.
        models: The folder that holds their folders.
        release: The name of the Triton release that serves them.
        gpu: True if GPUs serve them, with plans for models declared for TensorRT.
    """

    names: tuple[str, ...]
    models: str
    release: str
    gpu: bool

    def answers(self) -> list[Seen]:
        """Read and check the declarations in this process."""
        release = release_named(self.release)
        return [self._answer(name, release) for name in self.names]

    def _answer(self, name: str, release: Release) -> Seen:
        models, folder = Path(self.models), _folder(name)
        try:
            declared = read_folder(folder, models)
            build = declared.asked(name)
        except FleetError as error:
            return Seen(judged=Judged(problems=error.problems))
        return Seen(
            judged=judge(build, source=models / folder, release=release, gpu=self.gpu),
            forms=tuple(form.name for form in declared.forms.values()),
            variables=tuple(sorted(variables_read(models / folder))),
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
        processes: int | None = None,
    ) -> None:
        self.names = tuple(dict.fromkeys(names))
        self._source = source
        self._circumstances = circumstances(files, release=release.name, gpu=gpu)
        self._digests = folder_digests(files)
        recalled = recall(source, self._circumstances)
        self._known = {
            name: recalled[name]
            for name in self.names
            if name in recalled and recalled[name].is_still(self._digests, _folder(name))
        }
        unknown = tuple(name for name in self.names if name not in self._known)
        each = max(-(-len(unknown) // (processes or os.cpu_count() or 1)), _LEAST_FOR_A_PROCESS)
        self._questions = [
            Question(
                names=unknown[first : first + each],
                models=str((source / "models").absolute()),
                release=release.name,
                gpu=gpu,
            )
            for first in range(0, len(unknown), each)
        ]
        few = len(self._questions) <= 1
        self._processes = [] if few else [_started(question) for question in self._questions]
        self._judged: list[Judged] | None = None
        weakref.finalize(self, _end, self._processes)

    def problems(self) -> Iterator[Problem]:
        """Wait for the check, and yield the problems of the declarations.

        First those of each alone, in the order of their names, then those of several together.

        Raises:
            FleetError: A process ended before it had read its declarations.
        """
        return together(self.judged())

    def judged(self) -> Sequence[Judged]:
        """Wait for the check, and return the result of each declaration, in the order of their names.

        Raises:
            FleetError: A process ended before it had read its declarations.
        """
        if self._judged is None:
            seen = dict(self._answers())
            self._remember(seen)
            found = {name: good.judged for name, good in self._known.items()}
            found |= {name: each.judged for name, each in seen.items()}
            self._judged = [found[name] for name in self.names]
        return self._judged

    def _remember(self, seen: Mapping[str, Seen]) -> None:
        good = {
            name: Good(
                digest=self._digests[_folder(name)],
                judged=each.judged,
                forms=each.forms,
                variables=values_of(each.variables),
            )
            for name, each in seen.items()
            if not each.judged.problems
        }
        if good:
            remember(self._source, self._circumstances, {**self._known, **good})

    def _answers(self) -> Iterator[tuple[str, Seen]]:
        for number, question in enumerate(self._questions):
            seen = _answer(question, self._processes[number]) if self._processes else question.answers()
            yield from zip(question.names, seen, strict=True)


def main() -> None:
    """Read a question from standard input and write the answers to standard output."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # declarations may print to standard output
    gc.disable()  # the process ends before there is garbage worth collecting
    sys.dont_write_bytecode = True  # a valid declaration is not read twice
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    question = json.load(sys.stdin)
    seen = Question(**{**question, "names": tuple(question["names"])}).answers()
    with answers:
        json.dump([asdict(each) for each in seen], answers)


def _folder(name: str) -> str:
    return name.partition(FORM_MARK)[0]


def _started(question: Question) -> subprocess.Popen[bytes]:
    """Start a process that answers a question."""
    with tempfile.TemporaryFile("w+") as asked:  # a pipe may take less than thousands of names
        json.dump(asdict(question), asked)
        asked.seek(0)
        return subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *sys.path], stdin=asked, stdout=subprocess.PIPE
        )


def _answer(question: Question, process: subprocess.Popen[bytes]) -> list[Seen]:
    answer, _ = process.communicate()
    if process.returncode:
        raise FleetError([_unread(question, process.returncode)])
    return [Seen.of(each) for each in json.loads(answer)]


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End the processes whose answers are no longer needed."""
    for process in processes:
        with contextlib.suppress(OSError):
            process.kill()
        with process:
            pass


def _unread(question: Question, status: int) -> Problem:
    how = f"of signal {-status}" if status < 0 else f"with the exit code {status}"
    return Problem(
        what=f"the process that read {len(question.names):,} declarations ended {how}",
        where=f"{question.models}, from {question.names[0]} to {question.names[-1]}",
        expected="declarations without side effects on their process",
        why="their models could not be checked",
        fix="check its output for a build.py that ends the process or crashes a library",
        rule="survey",
    )
