"""`fleet probe account` when something goes wrong: one error or one reason, and nothing left behind."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aws_for_tests.fixture import aws_fixture
from embedded_aws import EmbeddedAws
from tests.rehearsal.probed_account import REGION, Account, arguments
from triton_models.base.errors import FleetError
from triton_models.probe.account import journal as journals
from triton_models.probe.account import plan
from triton_models.probe.account.run import run

pytestmark = pytest.mark.story

# One probe for each kind of resource, with few of the calls that are slow here.
PROBES = [
    *("empty-prefix", "writes", "endpoint", "build-host", "processing-host", "bakes", "scaling"),
    *("state-machine", "failed-stack", "replaced", "updates"),
]
EVERY_STEP = os.environ.get("FLEET_FUZZ") == "1"
VERDICTS = sum(len(probe.decides) for probe in plan.wanted(PROBES, everything=False))
_READS = ("Get", "List", "Describe", "Batch", "Head", "Receive", "Filter", "Invoke")


class Killed(BaseException):
    """The process was killed: nothing after it runs."""


aws = aws_fixture(scope="module")


@pytest.fixture
def account(aws: EmbeddedAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Account:
    """An account whose builds never end and whose metrics never come. Each pause takes half an hour."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    account = Account(aws, tmp_path)
    account.minutes_a_pause = 30.0
    return account


@pytest.fixture(scope="module")
def steps(aws: EmbeddedAws, tmp_path_factory: pytest.TempPathFactory) -> list[int]:
    """The numbers, from 1, of a run's first request of each changing operation; with FLEET_FUZZ=1, of all."""
    account, calls = Account(aws, tmp_path_factory.mktemp("steps")), list[str]()
    account.minutes_a_pause = 30.0
    account.before = calls.append
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(account.folder))
        account.probe(*PROBES)
    if EVERY_STEP:
        return list(range(1, len(calls) + 1))
    changes = {call: number for number, call in reversed(list(enumerate(calls, 1)))}
    return sorted(number for call, number in changes.items() if not call.startswith(_READS))


def at(number: int, do: Callable[[], Any], *, and_later: bool = False) -> Callable[[str], Any]:
    """Return a function that acts at the request with a number, or at every request from it on."""
    seen = 0

    def count(_: str) -> Any:
        nonlocal seen
        seen += 1
        return do() if seen == number or (and_later and seen > number) else None

    return count


def raising(error: type[BaseException]) -> Callable[[], None]:
    def throw() -> None:
        raise error

    return throw


def calm(account: Account) -> None:
    account.before = account.after = lambda call: None


def share(steps: list[int], number: int) -> list[int]:
    """Return a quarter of the steps for each of four tests, or all of them with FLEET_FUZZ=1."""
    return steps if EVERY_STEP else steps[number::4]


@pytest.mark.parametrize(("number", "when"), [(0, "before"), (1, "after")])
def test_an_interrupt_at_any_step_leaves_nothing(
    account: Account, steps: list[int], number: int, when: str
) -> None:
    for step in share(steps, number):
        setattr(account, when, at(step, raising(KeyboardInterrupt)))
        with contextlib.suppress(KeyboardInterrupt):
            account.probe(*PROBES)
        calm(account)
        if account.removing:  # the interrupt may have stopped the removal, like a second Ctrl-C
            account.probe(clean=True)
        assert account.left() == [], step


def test_what_a_crash_at_any_step_leaves_is_cleaned(account: Account, steps: list[int]) -> None:
    for step in share(steps, 2):
        crash(account, step)
        account.probe(clean=True)
        assert (account.left(), account.journals()) == ([], []), step


def test_a_run_that_crashed_at_any_step_is_gone_on_with(account: Account, steps: list[int]) -> None:
    for step in share(steps, 3):
        if crash(account, step) and account.journals():  # written before the first change
            outcome = account.probe(resume=True)
            assert len(outcome.as_dict()["verdicts"]) == VERDICTS
        assert (account.left(), account.journals()) == ([], []), step


def crash(account: Account, number: int) -> bool:
    """Kill the process after AWS has done a request, but before it answers. False if the run ends earlier."""
    account.after = at(number, raising(Killed))
    account.before = at(number + 1, raising(Killed), and_later=True)
    try:
        account.probe(*PROBES)
    except Killed:
        return True
    finally:
        calm(account)
    return False


def test_what_no_journal_names_is_found_in_the_account(account: Account, steps: list[int]) -> None:
    crash(account, steps[len(steps) // 2])
    for path in account.journals():
        path.unlink()

    cleaned = account.probe(clean=True)

    assert cleaned.exit_code == 0
    assert account.left() == []


def test_cleaning_touches_nothing_of_anybody_else(account: Account, aws: EmbeddedAws) -> None:
    aws.client("s3").create_bucket(Bucket="fleet-probe-results")

    account.probe(clean=True)

    assert aws.client("s3").head_bucket(Bucket="fleet-probe-results")


def test_a_run_under_way_on_this_machine_is_left_alone(account: Account) -> None:
    crash(account, 20)
    [path] = account.journals()
    other = journals.Journal.read(path)
    assert other.lock()

    cleaned = account.probe(clean=True)

    assert cleaned.as_dict()["running"] == [other.run]
    assert account.left() != []
    other.unlock()
    account.probe(clean=True)
    assert account.left() == []


# Bad input


NOT_ALLOWED = "User: x is not authorized to perform: codebuild:CreateProject on resource: y"


def refused(call: str, code: str, message: str = "no") -> Callable[[str], Any]:
    return lambda name: (code, message) if name == call else None


@pytest.mark.parametrize(
    ("probe", "refusal", "reason"),
    [
        ("writes", ("CreateBucket", "AccessDenied"), "missing permission: CreateBucket"),
        (
            "build-host",
            ("CreateProject", "AccessDeniedException", NOT_ALLOWED),
            "missing permission: codebuild:C",
        ),
        ("build-host", ("StartBuild", "AccountLimitExceededException"), "a quota is too low"),
        ("endpoint", ("CreateEndpoint", "ResourceLimitExceeded"), "a quota is too low"),
        ("writes", ("CreateBucket", "BucketAlreadyExists"), "a name is taken"),
        ("endpoint", ("CreateModel", "ValidationException", "Could not assume role"), "CreateModel: "),
    ],
)
def test_what_a_probe_cannot_find_out_is_undecided_with_the_reason(
    account: Account, probe: str, refusal: tuple[str, ...], reason: str
) -> None:
    account.before = refused(*refusal)

    verdicts = account.verdicts(probe)

    calm(account)
    undecided = [each for each, outcome in verdicts.items() if outcome == "undecided"]
    assert undecided
    assert all(account.evidence[each].startswith(reason) for each in undecided)
    assert account.left() == []


def test_a_quota_of_0_shows_what_start_build_answers(account: Account) -> None:
    account.before = refused("StartBuild", "AccountLimitExceededException")

    assert account.verdicts("build-host")["start-build-without-quota"] == "true"


def test_an_instance_that_cannot_be_had_is_no_verdict_about_its_ami(account: Account) -> None:
    account.meanwhile = lambda: fail_endpoints("Unable to provision: InsufficientInstanceCapacity")
    account.start_minutes = 60.0

    assert account.verdicts("endpoint")["ami-with-multi-model"] == "undecided"
    assert account.evidence["ami-with-multi-model"].startswith("no capacity: ")
    assert account.left() == []


def fail_endpoints(reason: str) -> None:
    from moto.sagemaker.models import sagemaker_backends

    for endpoint in sagemaker_backends["123456789012"][REGION].endpoints.values():
        endpoint.endpoint_status, endpoint.failure_reason = "Failed", reason


def test_a_thing_that_must_not_be_deleted_is_one_error_that_names_it(account: Account) -> None:
    account.before = refused("DeleteBucket", "AccessDenied", "Access Denied")

    with pytest.raises(FleetError) as caught:
        account.probe("writes")

    (problem,) = caught.value.problems
    assert problem.rule == "probe-left"
    assert "missing permission: DeleteBucket" in problem.what
    calm(account)
    account.probe(clean=True)
    assert account.left() == []


def test_credentials_that_expire_are_one_error(account: Account) -> None:
    account.before = refused("CreateModel", "ExpiredToken", "The security token is expired")

    with pytest.raises(FleetError) as caught:
        account.probe("empty-prefix")

    assert caught.value.problems[0].what == "no usable AWS credentials"
    calm(account)
    assert account.left() == []


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"region": "mars-1"}, "probe-region"),
        ({"only": ["empty-prefx"]}, "unknown-probe"),
        ({"resume": True}, "probe-journal"),
        ({"profile": "missing"}, "probe-account"),
        ({"only": ["writes"]}, "probe-consent"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_error_and_creates_nothing(
    account: Account, given: dict[str, Any], rule: str
) -> None:
    as_given = arguments(account.folder, **given)
    with pytest.MonkeyPatch.context() as patched:
        for name, value in account.aws.exports().items():
            patched.setenv(name, value)
        patched.setenv("AWS_DEFAULT_REGION", as_given.region)
        if as_given.profile:
            patched.setenv("AWS_PROFILE", as_given.profile)
        with pytest.raises(FleetError) as caught:
            run(as_given, clock=account.clock)

    assert [problem.rule for problem in caught.value.problems] == [rule]
    assert (account.left(), account.journals()) == ([], [])


def test_no_credentials_are_one_error(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)

    with pytest.raises(FleetError, match="no usable AWS credentials"):
        run(arguments(account.folder), clock=account.clock)


def test_no_is_an_answer(account: Account) -> None:
    given = arguments(account.folder, only=["writes"])
    with pytest.raises(FleetError, match="nothing was done"):
        run(given, session=account.session, clock=account.clock, ask=lambda: "n")

    assert (account.left(), account.journals()) == ([], [])


@pytest.mark.parametrize(
    ("region", "release"),
    [("us-gov-west-1", "25.09"), pytest.param("eu-central-1", "25.06", marks=pytest.mark.story)],
)
def test_where_there_is_no_image_all_that_needs_one_is_undecided_and_nothing_is_left(
    account: Account, region: str, release: str
) -> None:
    given = arguments(account.folder, all=True, yes=True, release=release)
    account.region = region
    account.session = account.new_session()

    outcome = run(given, session=account.session, clock=account.clock)

    verdicts = {each["belief"]: each for each in outcome.as_dict()["verdicts"]}
    without_image = {
        *("s3-refuses-taken-key", "head-bucket-returns-region", "quota-names", "prices"),
        *("topic-same-region", "step-functions-rule-name", "rollback-of-custom-resources"),
        *("old-endpoint-removed-last", "no-rollback-continues", "retain-except-on-create"),
    }
    assert {name for name, each in verdicts.items() if each["outcome"] != "undecided"} <= without_image
    assert "AWS lists no image" in verdicts["model-on-empty-prefix"]["evidence"]
    assert "AWS lists no image" in verdicts["ami-with-multi-model"]["evidence"]
    assert (account.left(), account.journals()) == ([], [])
