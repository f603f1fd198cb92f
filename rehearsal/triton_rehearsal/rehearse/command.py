"""`fleet rehearse`: its steps in order, and its result."""

from __future__ import annotations

import json
import re
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, get_args

from triton_models.base.encoding import encode
from triton_models.base.errors import FleetError
from triton_models.base.outcome import Outcome
from triton_models.deliver.results import Status
from triton_models.deliver.results import Step as BuildStep
from triton_models.spec import ModelDefinition, model_names
from triton_rehearsal.options import RehearseOptions
from triton_rehearsal.page import report
from triton_rehearsal.page.server import PageServer
from triton_rehearsal.rehearse.predictions import Prediction, import_frameworks
from triton_rehearsal.rehearse.rehearsal import Deployed, Rehearsal
from triton_rehearsal.rehearse.reporter import Reporter, Step
from triton_rehearsal.rehearse.result import RehearsalResult
from triton_rehearsal.scenario.reading import read
from triton_rehearsal.scenario.result import ScenarioResult
from triton_rehearsal.scenario.scenario import Scenario, requests

# The time of an eviction and a load of a scenario's models on a usual machine, in seconds.
_RELOAD_S = 2
# Lines of `fleet build` that a user should not miss.
_NOTES = ("note: ", "warning: ")
# Steps of a model that take little time.
_MINOR = ("read", "check", "pack")
# A line of `fleet deliver` about a model.
_MODEL_STEP = re.compile(rf"\S+: ({'|'.join((*get_args(BuildStep), *get_args(Status)))})\b")
# Triton has no JSON form for it.
_NOT_IN_JSON = "float16"
_COMMAND = "aws sagemaker-runtime invoke-endpoint \\\n  {options} \\\n  /dev/stdout"
_PYTHON = """\
import boto3

runtime = boto3.client("sagemaker-runtime")
response = runtime.invoke_endpoint(
    EndpointName="{endpoint}",
    TargetModel="{artifact}",
    ContentType="{content_type}",
    Body=open("{body}", "rb"),
)
print(response["Body"].read().decode())"""


def run(options: RehearseOptions) -> Outcome:
    """Deploy, build, publish, serve and verify; with `--stay`, keep running until interrupted.

    Raises:
        FleetError: A step failed. Everything that was started has ended.
        SystemExit: With `--stay`, the rehearsal was interrupted. The status is the rehearsal's exit code.
    """
    project, reporter = _project_root(), Reporter()
    if options.report:
        report.check_target(options.report)
    scenario = None if options.scenario is None else read(options.scenario)
    _end_like_an_interrupt()
    start = time.perf_counter()
    models = model_names() if options.all else options.names
    with Rehearsal(
        project=project,
        port=options.port,
        models=models,
        stage=options.stage,
        gpu_memory=options.gpu_memory,
        scenario=scenario,
    ) as rehearsal:
        rehearsed: RehearsalResult | ScenarioResult
        if scenario is not None:
            reporter.say(scenario_announcement(scenario))
            rehearsed = _play(rehearsal, reporter, scenario, options)
        else:
            rehearsed = replace(_rehearse(rehearsal, reporter, start), of_named=bool(options.names))
            if options.report:
                _write_report(rehearsal.document(), reporter, options.report)
            if options.stay:
                with PageServer(rehearsal.document) as page:
                    _show(rehearsed, rehearsal, page.url, as_json=options.json)
                    _wait_for_interrupt()
    if options.stay:
        sys.exit(rehearsed.exit_code)  # the result has been printed
    return rehearsed


def _write_report(document: Mapping[str, Any], reporter: Reporter, file: Path) -> None:
    report.write(document, file)
    reporter.say(f"Report: {file}")


def scenario_announcement(scenario: Scenario) -> str:
    """Return how long a scenario takes."""
    seconds = requests(scenario).at[-1]
    said = f"The deployment takes half a minute. Requests arrive for {seconds:.0f} s."
    if scenario.expect.recovers:
        count = scenario.models - len(scenario.expect.failing_models)
        said += (
            f" Then {count} models are asked once more: up to about {count * _RELOAD_S} s if each has to be "
            "loaded. `recovers: false` leaves this out."
        )
    return said


def _deploy(rehearsal: Rehearsal, reporter: Reporter) -> Deployed:
    stage = rehearsal.stage.name
    target = f"the stage {stage} " if stage else ""
    with reporter.step(f"Deploy {target}with the CDK to an embedded AWS") as step:
        deployed = rehearsal.deploy(step.say)
        step.end(f"{deployed.resources} resources created")
    return deployed


def _rehearse(rehearsal: Rehearsal, reporter: Reporter, start: float) -> RehearsalResult:
    deployed = _deploy(rehearsal, reporter)
    if count := len(rehearsal.models):
        models = "1 model" if count == 1 else f"{count} models"
        reporter.say(f"{models} to build: seconds for a small one, more if it downloads weights first.")
    ahead = [import_frameworks(model) for model in rehearsal.models[:1]]
    with reporter.step("Build, verify and publish the models") as step:
        results = rehearsal.build(partial(_follow, step))
        counts = ", ".join(f"{count} {result}" for result, count in results.counts().items() if count)
        step.end(f"{counts}, into {deployed.repository}", failed=bool(results.failed))
    for thread in ahead:
        thread.join()
    predictions = tuple(_serve(rehearsal, reporter)) if rehearsal.models else ()
    reporter.say("")
    return RehearsalResult(
        deployed=deployed,
        results=results,
        predictions=predictions,
        inventory=rehearsal.inventory(),
        seconds=time.perf_counter() - start,
    )


def _start(rehearsal: Rehearsal, reporter: Reporter) -> None:
    with reporter.step("Start a Triton server for the endpoint") as step:
        rehearsal.serve()
        step.end(rehearsal.deployed.endpoint)


def _serve(rehearsal: Rehearsal, reporter: Reporter) -> list[Prediction]:
    _start(rehearsal, reporter)
    predictions: list[Prediction] = []
    with reporter.step("Invoke every model and compare with its source") as step:
        for model in rehearsal.models:
            step.enter(f"invoke {model.name}")
            for prediction in rehearsal.predictions(model):
                step.say(prediction.example)
                predictions.append(prediction)
        wrong = sum(not prediction.passed for prediction in predictions)
        step.end(f"{wrong} of {len(predictions)} failed" if wrong else "", failed=bool(wrong))
    return predictions


def _play(
    rehearsal: Rehearsal, reporter: Reporter, scenario: Scenario, options: RehearseOptions
) -> ScenarioResult:
    _deploy(rehearsal, reporter)
    _start(rehearsal, reporter)
    with PageServer(rehearsal.document) if options.stay else nullcontext() as page:
        if page is not None:
            reporter.say(f"Dashboard, instances, alarms and timeline: {page.url}")
        with reporter.step(f"Play the scenario {scenario.name}") as step:
            documents: list[dict[str, Any]] = []
            result = rehearsal.play(
                scenario,
                step.say,
                after_traffic=lambda: documents.append(rehearsal.document() if options.report else {}),
            )
            failed = sum(not each.holds for each in result.conditions)
            step.end(
                f"{failed} of {len(result.conditions)} conditions failed" if failed else "",
                failed=bool(failed),
            )
        if options.report:
            document = {**documents[0], "scenario": result.as_dict()}
            _write_report(document, reporter, options.report)
        reporter.say("")
        if page is not None:
            clock = _clock(rehearsal)
            readable = [*result.lines(), "", clock, "The rehearsal keeps running. Ctrl-C ends it."]
            _print([json.dumps(result.as_dict(), indent=2)] if options.json else readable)
            _wait_for_interrupt()
    return result


def _follow(step: Step, line: str) -> None:
    """Show a line of the build's log: a model that is built or done, a note, or output."""
    if found := _MODEL_STEP.match(line):
        step.enter(line.partition("; log: ")[0], is_minor=found[1] in _MINOR)
    elif line.startswith(_NOTES):
        step.note(line)
    else:
        done = _MODEL_STEP.match(step.phase)
        if done and done[1] in get_args(Status):
            step.enter("", is_minor=True)  # the line is about the build
        step.say(line)


def _show(rehearsed: RehearsalResult, rehearsal: Rehearsal, page: str, *, as_json: bool) -> None:
    exports = rehearsal.exports()
    calls = _example_calls(rehearsal, rehearsed)
    if as_json:
        clock = {"speed": rehearsal.aws.clock.speed, "now": rehearsal.aws.clock.now().isoformat()}
        running = {"exports": dict(exports), "calls": dict(calls), "page": page, "clock": clock}
        document = {**rehearsed.as_dict(), **running}
        lines = [json.dumps(document, indent=2)]
    else:
        said = _running(rehearsed.deployed, page, exports, calls)
        lines = [*rehearsed.lines(), "", *said, "", _clock(rehearsal), "Ctrl-C ends it."]
    _print(lines)


def _print(lines: Sequence[str]) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def _running(
    deployed: Deployed, page: str, exports: Mapping[str, str], calls: Mapping[str, str]
) -> Iterator[str]:
    yield f"Dashboard, instances, alarms and timeline: {page}"
    yield ""
    yield "The rehearsal keeps running. In another terminal, these variables point any AWS SDK here:"
    yield from ("", *(f"export {name}={value}" for name, value in exports.items()), "")
    yield f"Endpoint:         {deployed.endpoint}"
    yield f"Alias:            {deployed.alias}"
    yield f"Model repository: {deployed.repository}"
    for program, text in calls.items():
        yield from ("", f"With {program}:", "", *text.splitlines())


def _example_calls(rehearsal: Rehearsal, rehearsed: RehearsalResult) -> Mapping[str, str]:
    """Return a call of the first served model with its first example, for the AWS command line and boto3.

    The request is written to a file, because that of an image has thousands of numbers. There is no call if
    no served model has an example in JSON.
    """
    served = {made.model: made.artifact for made in rehearsed.predictions if made.artifact}
    endpoint = rehearsed.deployed.endpoint
    for model in rehearsal.models:
        request = _request(model) if model.name in served else None
        if request is None:
            continue
        body, content_type = request
        path = rehearsal.folder / f"{model.name}.json"
        path.write_bytes(body)
        options = {
            "--endpoint-name": endpoint,
            "--target-model": served[model.name],
            "--content-type": content_type,
            "--body": f"fileb://{path}",
        }
        command = " \\\n  ".join(f"{name} {shlex.quote(value)}" for name, value in options.items())
        return {
            "the AWS command line": _COMMAND.format(options=command),
            "boto3": _PYTHON.format(
                endpoint=endpoint, artifact=served[model.name], content_type=content_type, body=path
            ),
        }
    return {}


def _request(model: ModelDefinition) -> tuple[bytes, str] | None:
    """Return the body and the content type of a model's first example; None if JSON cannot hold it.

    Sequences are left out, because each of their requests needs its own parameters.
    """
    example = next((each for each in map(model.as_sent, model.examples()) if not each.sequence), None)
    if example is None or any(each.dtype == _NOT_IN_JSON for each in example.inputs.values()):
        return None
    try:
        return encode(example.inputs, outputs=None, content="json")
    except (FleetError, UnicodeDecodeError):  # a type without JSON form, or bytes such as those of an image
        return None


def _clock(rehearsal: Rehearsal) -> str:
    clock = rehearsal.aws.clock
    return (
        f"The embedded AWS runs {clock.requests} times as fast as your clock: an hour takes "
        f"{3600 / clock.requests:.3g} s, and each request counts as {clock.requests}. Its time was "
        f"{clock.now():%Y-%m-%dT%H:%M:%SZ} just now, and the page shows it. Ask for metrics by that time."
    )


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
        why="the rehearsal deploys the stacks that cdk.json names",
        fix="change into a repository with a fleet, such as one that `fleet init` began",
    )
