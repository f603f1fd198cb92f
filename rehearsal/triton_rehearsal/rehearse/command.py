"""`fleet rehearse`: its steps in order, and its result."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType

from triton_models.base.errors import FleetError
from triton_models.base.outcome import Outcome
from triton_models.spec import model_names
from triton_rehearsal.rehearse.rehearsal import Rehearsal
from triton_rehearsal.rehearse.reporter import Reporter
from triton_rehearsal.rehearse.result import RehearsalResult


def run(arguments: argparse.Namespace) -> Outcome:
    """Deploy, build, publish, serve and verify; with `--stay`, keep running until interrupted.

    Raises:
        FleetError: A step failed. Everything that was started has ended.
        SystemExit: With `--stay`, the rehearsal was interrupted. The status is the rehearsal's exit code.
    """
    reporter = Reporter()
    _end_like_an_interrupt()
    start = time.perf_counter()
    models = model_names() if arguments.all else arguments.names
    project, port, stage = _project_root(), arguments.port, arguments.stage
    with Rehearsal(project=project, port=port, models=models, stage=stage) as rehearsal:
        rehearsed = _rehearse(rehearsal, reporter, start)
        if arguments.stay:
            _show(rehearsed, rehearsal.exports(), as_json=arguments.json)
            _wait_for_interrupt()
    if arguments.stay:
        sys.exit(rehearsed.exit_code)  # the result has been printed
    return rehearsed


def _rehearse(rehearsal: Rehearsal, reporter: Reporter, start: float) -> RehearsalResult:
    stage = rehearsal.stage.name
    with reporter.step(
        f"Deploy {f'the stage {stage} ' if stage else ''}with the CDK to an embedded AWS"
    ) as say:
        deployed = rehearsal.deploy(say)
        say(f"=> {deployed.resources} resources created")
    with reporter.step("Build, verify and publish the models with the build job's buildspec") as say:
        results = rehearsal.build(say)
        counts = ", ".join(f"{count} {result}" for result, count in results.counts().items() if count)
        say(f"=> {counts}, into {deployed.repository}")
    with reporter.step("Start a Triton server for the endpoint") as say:
        rehearsal.serve()
        say(f"=> {deployed.endpoint}")
    with reporter.step("Invoke every model and compare with its source") as say:
        predictions = []
        for prediction in rehearsal.predictions():
            say(f"{prediction.model}: {prediction.example}")
            predictions.append(prediction)
    return RehearsalResult(
        deployed=deployed,
        results=results,
        predictions=tuple(predictions),
        inventory=rehearsal.inventory(),
        seconds=time.perf_counter() - start,
    )


def _show(rehearsed: RehearsalResult, exports: Mapping[str, str], *, as_json: bool) -> None:
    """Print the result before the wait."""
    if as_json:
        lines = [json.dumps({**rehearsed.as_dict(), "exports": dict(exports)}, indent=2)]
    else:
        commands = [f"export {name}={value}" for name, value in exports.items()]
        lines = [
            *rehearsed.lines(),
            "",
            "Running. Point any AWS SDK or the AWS command line here:",
            "",
            *commands,
            "",
            "Ctrl-C ends it.",
        ]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def _wait_for_interrupt() -> None:
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


def _end_like_an_interrupt() -> None:
    """Let SIGINT, SIGTERM and SIGHUP unwind the stack, so that everything that was started is closed.

    A shell starts a background command with SIGINT ignored, and Python keeps this. Under nohup, SIGHUP stays
    ignored.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, interrupt)


def _project_root() -> Path:
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "cdk.json").is_file():
            return folder
    raise FleetError.of(
        what=f"no cdk.json in {here} or above it",
        where="the working directory",
        expected="a clone of the repository",
        why="the rehearsal deploys the stacks that cdk.json names",
        fix="change into the repository and run it again",
    )
