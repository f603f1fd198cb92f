"""A process that does one task after the other, and what happens when a task does not end as it should."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from triton_models.base.errors import FleetError
from triton_models.deliver.worker import Ended, Report, Worker, apart

PLENTY_S = 60.0


def answer_pid(_: str, report: Report) -> int:
    return os.getpid()


def answer_folder(_: str, report: Report) -> tuple[str, str]:
    here = str(Path.cwd()), os.environ.get("CHANGED", "")
    os.chdir("/")
    os.environ["CHANGED"] = "yes"
    return here


def speak(text: str, report: Report) -> bool:
    sys.stdout.write(f"{text}\n")
    subprocess.run(["echo", f"{text} from a child"], check=True)
    return True


def be_refused(_: str, report: Report) -> int:
    report("look")
    raise FleetError.of(what="refused", where="here", fix="fix it")


def exit_at_once(_: str, report: Report) -> int:
    report("look")
    os._exit(3)


def exit_politely(_: str, report: Report) -> int:
    raise SystemExit("enough")


def run_out_of_memory(_: str, report: Report) -> int:
    raise FleetError.of(what="no memory", where="here", fix="buy some") from MemoryError()


def be_killed(_: str, report: Report) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def hang(path: str, report: Report) -> int:
    report("look")
    child = os.fork()
    if child:
        Path(path).write_text(str(child))
    time.sleep(1000)  # the child holds open all that its parent does
    return 0


@pytest.fixture
def worker() -> Iterator[Worker]:
    with Worker() as worker:
        yield worker


def done(worker: Worker, task, argument: str = "", **given) -> Ended:
    return worker.do(task, argument, name="net", **{"seconds": PLENTY_S, **given})


def test_what_a_task_changes_around_it_is_not_seen_by_the_next_one(worker):
    assert done(worker, answer_folder).answer == (str(Path.cwd()), "")
    assert done(worker, answer_folder).answer == (str(Path.cwd()), "")


def test_what_a_task_and_its_children_print_goes_into_its_log(worker, tmp_path, capfd):
    done(worker, speak, "one", log=tmp_path / "one.log")
    done(worker, speak, "two", log=tmp_path / "two.log")
    assert sorted((tmp_path / "one.log").read_text().splitlines()) == ["one", "one from a child"]
    assert sorted((tmp_path / "two.log").read_text().splitlines()) == ["two", "two from a child"]
    assert capfd.readouterr() == ("", "")


def test_without_a_log_what_is_printed_goes_to_standard_error(worker, capfd):
    done(worker, speak, "one")
    worker.close()
    out, error = capfd.readouterr()
    assert (out, sorted(error.splitlines())) == ("", ["one", "one from a child"])


def test_a_mistake_is_reported_and_logged_with_the_steps_and_the_process_goes_on(worker, tmp_path):
    before, steps = done(worker, answer_pid).answer, []
    ended = done(worker, be_refused, log=tmp_path / "log", on_step=steps.append)
    assert ended.answer is None
    assert [problem.what for problem in ended.problems] == ["refused"]
    log = (tmp_path / "log").read_text()
    assert log.startswith("look ...\n")
    assert "FleetError" in log
    assert steps == ["look"]
    assert done(worker, answer_pid).answer == before != os.getpid()


@pytest.mark.parametrize(
    ("task", "rule", "what"),
    [
        (exit_politely, "unexpected", "SystemExit: enough"),
        (run_out_of_memory, "", "no memory"),
        (exit_at_once, "crashed", "its process ended unexpectedly with the exit code 3"),
        (be_killed, "crashed", "of signal SIGKILL (often the kernel, when memory is full)"),
    ],
)
def test_a_process_that_a_task_ended_or_may_have_spoilt_is_replaced(task, rule, what, worker):
    before = done(worker, answer_pid).answer
    (problem,) = done(worker, task).problems
    assert problem.rule == rule
    assert what in problem.what
    assert done(worker, answer_pid).answer not in (before, None)


def test_a_task_that_hangs_is_killed_with_what_it_started(worker, tmp_path):
    assert done(worker, answer_pid).answer  # its process is there before the seconds count
    ended = done(worker, hang, str(tmp_path / "pid"), seconds=4.0)
    (problem,) = ended.problems
    assert problem.what == "it was killed after the time limit of 4 seconds"
    assert problem.rule == "timed-out"
    assert ends((tmp_path / "pid").read_text())
    assert done(worker, answer_pid).answer


def ends(pid: str) -> bool:
    """Return whether a process ends after a signal; that takes time on a busy machine."""
    moment, deadline = threading.Event(), time.monotonic() + 30
    while runs(pid) and time.monotonic() < deadline:
        moment.wait(0.05)
    return not runs(pid)


def runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_temporary_files_go_with_the_process(worker):
    folder = Path(done(worker, temporary_folder).answer or "")
    assert folder.is_dir()
    worker.close()
    assert not folder.exists()


def temporary_folder(_: str, report: Report) -> str:
    import tempfile

    return tempfile.mkdtemp()


def answer_nothing_to_pickle(_: str, report: Report) -> object:
    return apart(threading.Lock, name="net")


def test_an_answer_that_cannot_be_sent_is_reported(worker, tmp_path):
    (problem,) = done(worker, answer_nothing_to_pickle, log=tmp_path / "log").problems
    assert problem.rule == "crashed"
    assert "cannot pickle" in (tmp_path / "log").read_text()
