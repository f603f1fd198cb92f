"""Thousands of declarations read and judged in processes of their own, while their caller does other work.

Reading one takes a millisecond, so that a few are read where they are asked for. Thousands would be most of
a synthesis, which itself keeps one processor busy and no more. Those that were found good before, and have
not changed since, are not read at all.
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

# A process takes as long to start as so many declarations to read.
_LEAST_FOR_A_PROCESS = 150

# Whoever asks has work of their own, and waits for the answer when that is done.
_NICENESS = 5

_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from triton_models.survey.survey import main; main()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was found when a declaration was read.

    Attributes:
        judged: What is wrong with it, and its names.
        forms: The names of the forms in its folder.
        variables: The environment variables that its folder reads.
    """

    judged: Judged
    forms: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Seen:
        """What was found, from JSON."""
        return cls(
            judged=Judged.of(document["judged"]),
            forms=tuple(document["forms"]),
            variables=tuple(document["variables"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked about declarations.

    Attributes:
        names: The models: folders, or `folder:form`.
        models: The folder that holds their folders.
        release: The name of the Triton release that serves them.
        gpu: Whether GPUs serve them, with plans for what is declared for TensorRT.
    """

    names: tuple[str, ...]
    models: str
    release: str
    gpu: bool

    def answers(self) -> list[Seen]:
        """Read and judge the declarations, here and now."""
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
    """Declarations that are read and judged from now on, in the background if they are many.

    Attributes:
        names: The models: folders, or `folder:form`; each once.

    Args:
        names: The models: folders, or `folder:form`; each counts once.
        source: The folder that holds models/.
        files: The digest of each file in it: see `triton_models.base.source_files.contents`.
        release: The Triton release that serves them.
        gpu: Whether GPUs serve them, with plans for what is declared for TensorRT.
        processes: The most processes; by default one for each processor.
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
        """What is wrong with the declarations; waits for it.

        First with each by itself, in the order of their names, then with several together.

        Raises:
            FleetError: A process that read some of them did not come to its end.
        """
        return together(self.judged())

    def judged(self) -> Sequence[Judged]:
        """What was found about each declaration, in the order of their names; waits for it.

        Raises:
            FleetError: A process that read some of them did not come to its end.
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
    """Answer the question on standard input, on standard output."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # declarations may print
    gc.disable()  # the process is over before there is anything to collect
    sys.dont_write_bytecode = True  # what is found good is not read a second time
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    question = json.load(sys.stdin)
    seen = Question(**{**question, "names": tuple(question["names"])}).answers()
    with answers:
        json.dump([asdict(each) for each in seen], answers)


def _folder(name: str) -> str:
    return name.partition(FORM_MARK)[0]


def _started(question: Question) -> subprocess.Popen[bytes]:
    """A process that answers a question."""
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
    """End the processes whose answer nobody waits for any more."""
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
        expected="declarations that only declare",
        why="whether their models can be served is not known",
        fix="see what it printed; a build.py that ends the process, or crashes a library, ends this too",
        rule="survey",
    )
