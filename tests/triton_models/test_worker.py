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


def report_steps(_: str, report: Report) -> bool:
    report("first")
    report("second")
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


def test_tasks_run_in_another_process_which_stays(worker):
    first, second = done(worker, answer_pid), done(worker, answer_pid)
    assert first.answer == second.answer
    assert first.answer != os.getpid()


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


def test_the_steps_of_a_task_are_reported_as_they_begin(worker):
    steps: list[str] = []
    done(worker, report_steps, on_step=steps.append)
    assert steps == ["first", "second"]


def test_a_log_says_what_a_task_was_at(worker, tmp_path):
    done(worker, report_steps, log=tmp_path / "log")
    assert (tmp_path / "log").read_text() == "first ...\nsecond ...\n"


def test_a_mistake_is_reported_and_the_process_goes_on(worker, tmp_path):
    before = done(worker, answer_pid).answer
    ended = done(worker, be_refused, log=tmp_path / "log")
    assert ended.answer is None
    assert [problem.what for problem in ended.problems] == ["refused"]
    assert "FleetError" in (tmp_path / "log").read_text()
    assert done(worker, answer_pid).answer == before


@pytest.mark.parametrize("task", [exit_politely, run_out_of_memory])
def test_a_process_that_a_task_may_have_spoilt_is_replaced(task, worker):
    before = done(worker, answer_pid).answer
    assert done(worker, task).problems
    assert done(worker, answer_pid).answer not in (before, None)


def test_a_task_that_ends_the_process_is_reported_with_its_exit_code(worker):
    ended = done(worker, exit_at_once)
    (problem,) = ended.problems
    assert problem.what == "its process ended unexpectedly with the exit code 3"
    assert problem.rule == "crashed"
    assert done(worker, answer_pid).answer


def test_a_task_that_calls_exit_is_reported_by_its_words(worker):
    (problem,) = done(worker, exit_politely).problems
    assert problem.what == "SystemExit: enough"
    assert problem.where.startswith(__file__)


def test_a_process_that_the_kernel_kills_is_reported_with_the_likely_reason(worker):
    (problem,) = done(worker, be_killed).problems
    assert "of signal SIGKILL" in problem.what
    assert "memory" in problem.what


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


def change(_: str, report: Report) -> str:
    report("change")
    os.environ["CHANGED"] = "yes"
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    return "changed"


def seen(_: str, report: Report) -> tuple[str, bool]:
    return os.environ.get("CHANGED", ""), signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL


def do_apart(task: str, report: Report) -> object:
    tasks = {"change": change, "refused": be_refused, "exit": exit_at_once, "killed": be_killed, "hang": hang}
    path = task.partition(" ")[2]
    try:
        answer = apart(lambda: tasks[task.partition(" ")[0]](path, report), name="net")
    except FleetError:
        if not path:
            raise
        answer = None
    return answer, seen("", report)


def answer_nothing_to_pickle(_: str, report: Report) -> object:
    return apart(threading.Lock, name="net")


def test_what_a_function_changes_apart_ends_with_it(worker):
    steps: list[str] = []
    assert done(worker, do_apart, "change", on_step=steps.append).answer == ("changed", ("", True))
    assert steps == ["change"]


@pytest.mark.parametrize(
    ("task", "rule", "what"),
    [
        ("refused", "", "refused"),
        ("exit", "crashed", "its process ended unexpectedly with the exit code 3"),
        ("killed", "crashed", "of signal SIGKILL"),
    ],
)
def test_a_function_that_fails_apart_fails_only_its_task(task, rule, what, worker):
    before = done(worker, answer_pid).answer
    (problem,) = done(worker, do_apart, task).problems
    assert (problem.rule, what in problem.what) == (rule, True)
    assert done(worker, answer_pid).answer == before


def test_an_answer_that_cannot_be_sent_is_reported(worker, tmp_path):
    (problem,) = done(worker, answer_nothing_to_pickle, log=tmp_path / "log").problems
    assert problem.rule == "crashed"
    assert "cannot pickle" in (tmp_path / "log").read_text()


class Leaving:
    def flush(self) -> None:
        raise SystemExit


def answer_and_leave(_: str, report: Report) -> object:
    def leave() -> str:
        sys.stdout = sys.stderr = Leaving()
        return "left"

    return apart(leave, name="net"), answer_pid("", report)


def test_a_function_that_replaces_the_streams_ends_apart(worker):
    pid = done(worker, answer_pid).answer
    assert done(worker, answer_and_leave).answer == ("left", pid)


def test_a_function_that_hangs_apart_is_killed_with_what_it_started(worker, tmp_path):
    assert done(worker, answer_pid).answer
    (problem,) = done(worker, do_apart, f"hang {tmp_path / 'pid'}", seconds=4.0).problems
    assert problem.rule == "timed-out"
    assert ends((tmp_path / "pid").read_text())


def temporary_folder(_: str, report: Report) -> str:
    import tempfile

    return tempfile.mkdtemp()
