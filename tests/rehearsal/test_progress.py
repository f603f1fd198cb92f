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

FAILURE = FleetError.of(what="the port is taken", where="here", fix="wait")


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


def test_a_log_never_has_control_characters_even_with_colors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    log = io.StringIO()
    with reporter(log).step("Deploy") as step:
        step.say("a line")

    assert not re.search(r"\r|\x1b\[[^m]*[A-Za-ln-z]", log.getvalue())
    assert "Deploy" in log.getvalue()


def test_a_log_does_not_repeat_an_event() -> None:
    log = Log("Build the models")
    with reporter(log, every_s=0.001).step("Build the models") as step:
        step.enter("minilm: published")
        for _ in range(3):
            log.seen.clear()
            assert log.seen.wait(10)

    assert log.getvalue().count("minilm: published") == 1


def test_a_log_shows_what_is_running() -> None:
    log = Log("minilm: build  exporting")
    with reporter(log, every_s=0.001).step("Build") as step:
        step.enter("minilm: build")
        step.say("exporting")

        assert log.seen.wait(10)


def test_a_long_line_of_a_log_is_one_line() -> None:
    log = io.StringIO()
    with reporter(log).step("Deploy") as step:
        step.end("s3://bucket/" + 200 * "a")

    assert len(log.getvalue().splitlines()) == 2


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_step_that_raises_failed_and_says_why(stream: type[io.StringIO]) -> None:
    written = stream()
    with pytest.raises(FleetError), reporter(written).step("Start a server"):
        raise FAILURE

    assert re.search(r"FAILED +\d\.\d s  Start a server  the port is taken", plain(written))
    assert "ok " not in plain(written)


def test_a_step_with_a_failed_outcome_is_never_ok() -> None:
    log = io.StringIO()
    with reporter(log).step("Build") as step:
        step.end("1 failed", failed=True)

    assert re.search(r"FAILED .* Build  1 failed", log.getvalue())
    assert "ok " not in log.getvalue()


def test_an_interrupted_step_is_not_ok() -> None:
    log = io.StringIO()
    with pytest.raises(KeyboardInterrupt), reporter(log).step("Deploy"):
        raise KeyboardInterrupt

    assert "Deploy  interrupted" in log.getvalue()


def test_a_terminal_shows_the_time_of_the_running_step() -> None:
    terminal = Terminal()
    with reporter(terminal).step("Deploy") as step:
        step.say("a bucket")

    assert "0:00  Deploy" in terminal.getvalue()
    assert re.search(r"ok +\d\.\d s  Deploy", plain(terminal))


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        ("minilm: build", "minilm: build"),
        ("resnet50:torchscript: verify", "resnet50:torchscript: verify"),
        ("a: failed in build: it broke; log: CloudWatch Logs b", "a: failed in build: it broke"),
        ("a: published as a-0123.tar.gz (1.0 s)", "a: published as a-0123.tar.gz (1.0 s)"),
        ("Collecting numpy", ""),
    ],
)
def test_a_line_of_the_build_about_a_model_is_a_part_of_the_step(line: str, phase: str) -> None:
    step = Step(title="Build", on_phase=lambda phase: None, note=lambda line: None)
    _follow(step, line)

    assert (step.phase, step.detail) == (phase, "" if phase else line)


@pytest.mark.parametrize(
    ("before", "latest"),
    [("a: build", "a: build  Collecting"), ("a: published as a-0123.tar.gz", "Collecting")],
)
def test_output_after_a_result_is_not_about_its_model(before: str, latest: str) -> None:
    step = Step(title="Build", on_phase=lambda phase: None, note=lambda line: None)
    _follow(step, before)
    _follow(step, "Collecting")

    assert step.latest == latest


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
@pytest.mark.parametrize("line", ["note: churn runs on the CPU", "warning: churn has random weights"])
def test_notes_and_warnings_of_the_build_stay(line: str, stream: type[io.StringIO]) -> None:
    written = stream()
    with reporter(written).step("Build") as step:
        _follow(step, line)

    assert f"{line}\n" in plain(written)
