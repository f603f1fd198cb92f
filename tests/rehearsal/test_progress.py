"""The progress of a rehearsal, on a terminal and in a log."""

from __future__ import annotations

import io
import os
import re
import threading

import pytest
from rich.console import Console

from triton_models.base.errors import FleetError
from triton_rehearsal.rehearse.command import _follow
from triton_rehearsal.rehearse.reporter import Reporter, Step


class Terminal(io.StringIO):
    """A text stream that is a terminal."""

    def isatty(self) -> bool:
        return True


class Log(io.StringIO):
    """A log that notes when a text is written to it."""

    def __init__(self, awaited: str) -> None:
        super().__init__()
        self.awaited, self.seen = awaited, threading.Event()

    def write(self, text: str) -> int:
        if self.awaited in text:
            self.seen.set()
        return super().write(text)


def reporter(stream: io.StringIO, **options: float) -> Reporter:
    terminal = {**os.environ, "TERM": "xterm"}
    return Reporter(Console(file=stream, width=80, _environ=terminal), **options)


def plain(stream: io.StringIO) -> str:
    """Return what was written, without colors."""
    return re.sub(r"\x1b\[[\d;]*m", "", stream.getvalue())


def test_a_log_has_a_line_for_each_step_each_part_and_each_outcome() -> None:
    log = io.StringIO()
    with reporter(log).step("Build the models") as step:
        step.enter("minilm: build")
        step.say("a line of output")
        step.enter("minilm: pack", is_minor=True)
        step.end("1 published")

    first, part, end = log.getvalue().splitlines()
    assert (first, part) == ("0:00  Build the models", "0:00  minilm: build")
    assert re.fullmatch(r"ok +\d\.\d s  Build the models  1 published", end)


def test_a_log_shows_what_is_running_and_repeats_no_event() -> None:
    log = Log("minilm: build  exporting")
    with reporter(log, every_s=0.001).step("Build the models") as step:
        step.enter("minilm: build")
        step.say("exporting")
        assert log.seen.wait(60)
        log.awaited = "Build the models"
        step.enter("minilm: published")
        for _ in range(3):
            log.seen.clear()
            assert log.seen.wait(60)

    assert log.getvalue().count("minilm: published") == 1


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_step_that_raises_failed_and_says_why(stream: type[io.StringIO]) -> None:
    written = stream()
    with pytest.raises(FleetError), reporter(written).step("Start a server"):
        raise FleetError.of(what="the port is taken", where="here", fix="wait")

    assert re.search(r"FAILED +\d\.\d s  Start a server  the port is taken", plain(written))
    assert "ok " not in plain(written)


@pytest.mark.parametrize(
    ("line", "phase", "later"),
    [
        ("resnet50:torchscript: verify", "resnet50:torchscript: verify", "resnet50:torchscript: verify  x"),
        ("a: failed in build: it broke; log: CloudWatch Logs b", "a: failed in build: it broke", "x"),
        ("a: published as a-0123.tar.gz (1.0 s)", "a: published as a-0123.tar.gz (1.0 s)", "x"),
        ("Collecting numpy", "", "x"),
    ],
)
def test_a_line_of_the_build_about_a_model_is_a_part_of_the_step_until_its_result(
    line: str, phase: str, later: str
) -> None:
    step = Step(title="Build", on_phase=lambda phase: None, note=lambda line: None)
    _follow(step, line)
    assert (step.phase, step.detail) == (phase, "" if phase else line)

    _follow(step, "x")
    assert step.latest == later


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_notes_and_warnings_of_the_build_stay(stream: type[io.StringIO]) -> None:
    written, lines = stream(), ("note: churn runs on the CPU", "warning: churn has random weights")
    with reporter(written).step("Build") as step:
        for line in lines:
            _follow(step, line)

    assert all(f"{line}\n" in plain(written) for line in lines)
