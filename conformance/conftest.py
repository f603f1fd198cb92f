"""The two ends of the suite: an account or a GPU if asked, and otherwise the embedded AWS and the records."""

from __future__ import annotations

import secrets
import signal
import sys
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from contextlib import nullcontext
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from conformance.beliefs import errand_of, ids_of
from conformance.records import ANSWER, BELIEFS, FOLDER, Asked, Record, outcome_of, records
from triton_models.facts.instances import instance_type
from triton_models.facts.releases import DEFAULT_RELEASE, release

_RUN = "conformance_run"
_run = pytest.StashKey[str]()
_refused = pytest.StashKey[bool]()
_reports: list[pytest.TestReport] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance")
    group.addoption("--aws", action="store_true", help="ask an AWS account, which costs money; asks first")
    group.addoption("--gpu", action="store_true", help="ask this machine's GPU, in the image of a release")
    group.addoption("--region", help="the region for --aws")
    group.addoption("--cheap", action="store_true", help="with --aws: only what costs less than 2 USD in all")
    group.addoption("--yes", action="store_true", help="with --aws: do not ask before anything is created")
    group.addoption("--release", help=f"the Triton release (default: {DEFAULT_RELEASE}, or the image's)")
    group.addoption("--instance-type", default="ml.g5.2xlarge", help="with --aws (default: ml.g5.2xlarge)")
    group.addoption("--recorded", type=Path, default=FOLDER, help="the folder of records")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks, name the run, and let SIGTERM end it as Ctrl-C does, with everything removed."""
    config.addinivalue_line("markers", "belief(*ids): the beliefs that a test decides with one parameter")
    config.addinivalue_line("markers", "account(errand): asks AWS, with its price and duration")
    config.addinivalue_line("markers", "gpu(*needs): asks a machine with a GPU, or a release's image")
    if config.option.aws and not config.option.region:
        msg = "--aws needs --region, such as --region us-east-1"
        raise pytest.UsageError(msg)
    if config.option.aws and config.getoption("numprocesses", None) and not config.option.yes:
        msg = "-n cannot ask: --collect-only lists what would be created, and --yes agrees to it"
        raise pytest.UsageError(msg)
    config.stash[_run] = getattr(config, "workerinput", {}).get(_RUN) or secrets.token_hex(4)
    if config.option.aws:
        for each in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput[_RUN] = node.config.stash[_run]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Let each record answer the tests that only an account or a GPU can."""
    kind = _recorded_kind(metafunc.definition)
    if "ask" in metafunc.fixturenames:
        asked = kind and not _live(metafunc.config)
        found = [each for each in records(metafunc.config.option.recorded) if asked and each.kind == kind]
        shown = [pytest.param(each, id=each.name) for each in found]
        metafunc.parametrize("record", shown or [pytest.param(None, id=pytest.HIDDEN_PARAM)])


def _live(config: pytest.Config) -> bool:
    return bool(config.option.aws or config.option.gpu)


def _recorded_kind(item: Any) -> str:
    """Return the kind of the records that answer a test; empty if the embedded AWS does."""
    if item.get_closest_marker("gpu"):
        return "gpu"
    errand = errand_of(item)
    return "account" if errand and errand.alone else ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the tests of the chosen end, and check that each decides a belief."""
    for item in items:
        if (item.get_closest_marker("account") or item.get_closest_marker("gpu")) and not ids_of(item):
            raise pytest.UsageError(f"conformance/beliefs.toml: no belief names the test {item.nodeid}")
    if _live(config):
        mark = "account" if config.option.aws else "gpu"
        chosen = [each for each in items if each.get_closest_marker(mark)]
        if config.option.aws and config.option.cheap:
            chosen = [each for each in chosen if (errand := errand_of(each)) and errand.cheap]
        config.hook.pytest_deselected(items=[each for each in items if each not in chosen])
        items[:] = chosen


def _name(config: pytest.Config) -> str:
    from conformance.sweep import PREFIX

    return f"{PREFIX}{config.stash[_run]}"


def pytest_report_collectionfinish(config: pytest.Config, items: Sequence[pytest.Item]) -> list[str]:
    """List what a run in an account creates, with price and duration."""
    if not config.option.aws:
        return []
    errands = [(item, errand) for item in items if (errand := errand_of(item))]
    lines = [
        f"{each.minutes:5g} min {each.dollars:6.2f} USD  {item.nodeid.partition('::')[2]}  {each.creates}"
        for item, each in errands
    ]
    minutes, dollars = sum(each.minutes for _, each in errands), sum(each.dollars for _, each in errands)
    where = f"in {config.option.region}, one after another: {minutes:.0f} minutes, {dollars:.2f} USD"
    return [*lines, f"{len(lines)} tests {where}.", f"Everything is named and tagged {_name(config)}."]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    config = session.config
    asks = config.option.aws and not config.option.yes and not config.option.collectonly
    if not asks or not session.items:
        return
    capture = config.pluginmanager.get_plugin("capturemanager")
    if capture:
        capture.suspend_global_capture(in_=True)
    try:
        sys.stdout.write("Create this? [y/N] ")
        sys.stdout.flush()
        answer = sys.stdin.readline()
    finally:
        if capture:
            capture.resume_global_capture()
    if answer.strip().lower() not in {"y", "yes"}:
        config.stash[_refused] = True
        pytest.exit("nothing was created", returncode=1)


def pytest_runtest_setup(item: pytest.Item) -> None:
    kind = _recorded_kind(item)
    if kind and not _live(item.config) and item.callspec.params["record"] is None:  # type: ignore[attr-defined]
        pytest.skip(f"only {'a GPU' if kind == 'gpu' else 'an account'} can answer, and there is no record")
    if item.config.option.gpu:
        from conformance.gpu.machine import lacking

        if lacks := lacking({each for mark in item.iter_markers("gpu") for each in mark.args}):
            pytest.skip(lacks)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if item.config.option.aws and call.excinfo is not None and errand_of(item):
        from botocore.exceptions import BotoCoreError, ClientError

        from conformance.account import hindrance

        error = call.excinfo.value
        why = hindrance(error) if isinstance(error, ClientError) else ""
        if why or isinstance(error, BotoCoreError):  # it decides nothing
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, why or f"AWS cannot be reached: {error}")
    if ids := ids_of(item):
        report.user_properties.append((BELIEFS, ids))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _reports.append(report)  # which may come from a worker


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    idle = hasattr(config, "workerinput") or config.option.collectonly or config.stash.get(_refused, False)
    if idle or not _live(config):
        return
    by_belief: dict[str, list[pytest.TestReport]] = defaultdict(list)
    answers: dict[str, Any] = {}
    for report in _reports:
        for name, found in report.user_properties:
            value: Any = found
            if name == ANSWER:
                answers |= value
            elif name == BELIEFS and (report.when == "call" or not report.passed):
                for each in value:
                    by_belief[each].append(report)
    kind, place, number = "account", config.option.region, config.option.release or DEFAULT_RELEASE
    if config.option.gpu:
        from conformance.gpu.machine import machine

        kind, here = "gpu", machine(config.option.release)
        place, number = here.place, here.release.name
    today = datetime.now(tz=timezone.utc).date().isoformat()
    verdicts = {each: {**outcome_of(reports), "date": today} for each, reports in by_belief.items()}
    record = Record(kind=kind, place=place, release=number, verdicts=verdicts, answers=answers)
    if verdicts:
        sys.stdout.write(f"\nrecord: {record.write(config.option.recorded)}\n")
    if config.option.aws:
        _sweep(config, place)


def _sweep(config: pytest.Config, region: str) -> None:
    import boto3.session

    from conformance.sweep import sweep

    session: Any = boto3.session.Session(region_name=region)
    for each in sweep(session.client, region, _name(config)):
        sys.stdout.write(f"not removed: {each}; run python -m conformance.sweep --region {region}\n")


@pytest.fixture
def ask(request: pytest.FixtureRequest, record: Record | None) -> Asked:
    """The questions of a test, whose answers are recorded or replayed."""
    config, item = request.config, request.node
    own = _live(config) or _recorded_kind(item)
    replays = [] if own else [each for each in records(config.option.recorded) if each.kind == "account"]
    names = {_name(config): "<run>"}
    return Asked(item=item, live=_live(config), names=names, replays=replays, record=record)


@pytest.fixture(scope="module")
def aws(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The account, or the embedded AWS. What the module's tests have created is removed at its end.

    A module's function `hosted`, if any, hosts the endpoints or builds of the embedded AWS.
    """
    import boto3.session

    from conformance.account import Account

    option = request.config.option
    given: dict[str, Any] = {
        "region": option.region or "us-east-1",
        "run": request.config.stash[_run],
        "module": request.path.stem.removeprefix("test_").replace("_", ""),
        "release": release(option.release or DEFAULT_RELEASE),
        "instance": instance_type(option.instance_type),
    }
    if option.aws:
        account = Account(session=boto3.session.Session(region_name=option.region), **given)
        yield account
        account.clear()
        return
    from triton_rehearsal.aws import open_aws

    hosted = getattr(request.module, "hosted", lambda _: nullcontext(""))
    with open_aws() as opened, hosted(opened) as url:
        key: Any = {"aws_access_key_id": opened.door.key, "aws_secret_access_key": "embedded"}
        session = boto3.session.Session(region_name=opened.region, **key)
        account = Account(session=session, embedded=opened, hosting=url, **given)
        yield account
        assert account.clear() == []
