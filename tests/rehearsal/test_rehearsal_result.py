"""The result of a rehearsal as a person reads it, at several widths."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from triton_models.base.errors import Problem
from triton_models.deliver.results import ModelResult, Results
from triton_rehearsal.rehearse.inventory import Alarm, Inventory, Policy, ScalableTarget, Widget
from triton_rehearsal.rehearse.predictions import Prediction
from triton_rehearsal.rehearse.rehearsal import Deployed, with_answers
from triton_rehearsal.rehearse.result import RehearsalResult

ENDPOINT = "TritonFleet-g5-2xlarge-25-09"
ARTIFACT = "resnet50-3cad2c69296e68e5.tar.gz"
PROBLEM = Problem(what="no such layer", where="/home/fleet-build-1a/src/models/resnet50/build.py:3", fix="b")
BUILT = ModelResult(model="resnet50", status="published", step="publish", seconds=13.1, artifact=ARTIFACT)
FAILED = ModelResult(model="churn", status="failed", step="build", problems=(PROBLEM,))
RIGHT = Prediction(
    model="resnet50",
    artifact=ARTIFACT,
    example="a batch of different lengths",
    cold_ms=1804,
    warm_ms=8,
    output="[2, 1000] -0.5598 -0.3596…",
    reference="-0.5598 -0.3596…",
    difference=3e-6,
    tolerance=1e-4,
)
INVENTORY = Inventory(
    targets=(
        ScalableTarget(
            resource=f"endpoint/{ENDPOINT}/variant/AllTraffic",
            minimum=1,
            maximum=4,
            policies=(Policy(name="p", metric="SageMakerVariantInvocationsPerInstance", target=600),),
        ),
    ),
    alarms=(
        Alarm(
            name=f"{ENDPOINT}-ticket-Silent",
            condition="requests arrive, no instance reports > 0",
            description="",
        ),
        Alarm(name="TargetTracking-endpoint/e/variant/A-AlarmHigh-1", condition="", description=""),
        Alarm(
            name=f"{ENDPOINT}-page",
            condition=" OR ".join(f'ALARM("{ENDPOINT}-page-{each}")' for each in ("A", "B", "C", "D")),
            description="",
        ),
    ),
    widgets=(Widget(title="Loaded models", metrics=("LoadedModelCount",)),),
    peak_models_loaded=2,
    cache_hit_ratio=0.875,
)


def result(*results: ModelResult, predictions: tuple[Prediction, ...] = ()) -> RehearsalResult:
    return RehearsalResult(
        deployed=Deployed(
            endpoint=ENDPOINT,
            alias="/fleet/endpoint",
            dashboard=ENDPOINT,
            repository="s3://bucket/models/",
            build_project="Builds",
            resources=51,
        ),
        results=Results(results=results),
        predictions=predictions,
        inventory=INVENTORY,
        seconds=83,
    )


def shown(rehearsed: RehearsalResult) -> str:
    return "\n".join(rehearsed.lines())


@pytest.mark.parametrize("width", [80, 160])
def test_at_every_width_no_line_is_wider_and_no_digest_is_broken(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = list(result(BUILT, predictions=(RIGHT, replace(RIGHT, example="two"))).lines())

    assert [line for line in lines if len(line) > width] == []
    assert any(re.search(r"\b3cad2c69296e68e5\b", line) for line in lines)
    assert [line for line in lines if "3cad" in line and "3cad2c69296e68e5" not in line] == []


def test_values_are_shown_if_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    rehearsed = result(BUILT, predictions=(RIGHT,))
    monkeypatch.setenv("COLUMNS", "80")
    assert "-0.5598" not in shown(rehearsed)
    monkeypatch.setenv("COLUMNS", "110")
    assert "[2, 1000] -0.5598…  -0.5598…" in shown(rehearsed)
    monkeypatch.setenv("COLUMNS", "160")
    assert f"{RIGHT.output}  {RIGHT.reference}" in shown(rehearsed)


def test_a_right_rehearsal_ends_with_its_summary_and_one_of_named_models_shows_only_theirs() -> None:
    rehearsed = result(BUILT, predictions=(RIGHT,))

    assert rehearsed.exit_code == 0
    assert list(rehearsed.lines())[-1] == (
        "1 of 1 models built, 1 of 1 predictions match their reference, in 83 s."
    )
    assert "page-A" in shown(rehearsed)
    assert "TargetTracking" not in shown(rehearsed)  # an alarm of a scaling policy
    text = shown(replace(rehearsed, of_named=True))
    assert [title for title in ("Auto scaling", "Alarms", "Dashboard") if title in text] == []
    assert "87.5 %" in text


def test_a_failure_leaves_the_alarms_out_and_ends_with_the_reason_and_the_next_step() -> None:
    rehearsed = result(BUILT, FAILED, predictions=(RIGHT,))
    lines = list(rehearsed.lines())

    assert rehearsed.exit_code == 1
    assert "Alarms" not in shown(rehearsed)
    assert "Auto scaling" not in shown(rehearsed)
    start = next(
        number for number, line in enumerate(lines) if line.startswith("FAILED: 1 of 2 models built")
    )
    assert lines[start + 2 :] == [
        "churn: failed in build",
        "  no such layer",
        "    where:    model_builds/models/resnet50/build.py:3",
        "    fix:      b",
        "",
        "Then rehearse again: fleet rehearse churn",
    ]


def test_an_answer_that_differs_and_a_request_that_failed_are_repeated_at_the_end() -> None:
    refused = Prediction(model="resnet50", artifact="", example="one", problems=(PROBLEM,))
    failed = shown(result(BUILT, predictions=(refused,)))
    assert "0 of 1 predictions match" in failed
    assert "resnet50, one: FAILED at the endpoint\n  no such layer" in failed
    wrong = replace(RIGHT, difference=0.5)
    end = shown(result(BUILT, predictions=(wrong, RIGHT))).partition("FAILED: ")[2]

    assert result(BUILT, predictions=(RIGHT, wrong)).exit_code == 1
    assert "WRONG, 5e-01 > 1e-04" in end
    assert RIGHT.output in end
    assert end.endswith("Then rehearse again: fleet rehearse resnet50")
    assert "equal" not in shown(result(BUILT, predictions=(wrong,)))


def test_builds_name_the_precision_and_what_was_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = "equal on 3 of your examples and 512 drawn rows, x between 0 and 255 (pixels)"
    proven = replace(BUILT, precision="fp16", proof="equal", answers=answers)
    others = [replace(proven, model=f"tenants_{number}") for number in range(5)]
    monkeypatch.setenv("COLUMNS", "80")
    lines = list(result(proven, *others, predictions=(RIGHT,)).lines())

    assert re.search(r"^  resnet50 +published +fp16 +equal +13\.1  3cad2c69296e68e5$", "\n".join(lines), re.M)
    assert f"resnet50, tenants_0, tenants_1 and 3 more: {answers}." in " ".join(lines)
    assert [line for line in lines if len(line) > 80] == []


def test_the_page_has_the_precision_and_the_answers_of_what_was_built() -> None:
    proven = replace(BUILT, precision="fp16", proof="equal", answers="equal on 3 of your examples")
    results = Results(results=(FAILED, proven))
    assert with_answers({"target": ARTIFACT, "loads": 1}, results) == {
        "target": ARTIFACT,
        "loads": 1,
        "precision": "fp16",
        "proof": "equal",
        "answers": "equal on 3 of your examples",
    }
    assert with_answers({"target": ""}, results) == {"target": ""}


def test_a_model_that_only_loads_is_not_counted_as_one_that_matches() -> None:
    loads = replace(BUILT, proof="loads", answers="loads; answered 1 generated example as its source does")
    made_up = replace(RIGHT, example="ones", generated=True)
    rehearsed = result(loads, predictions=(made_up, replace(RIGHT, model="other")))

    assert list(rehearsed.lines())[-1] == (
        "1 of 1 models built, 1 of 1 predictions match their reference, 1 of 1 generated example answered, "
        "1 model only loads, in 83 s."
    )
    alone = shown(result(loads, predictions=(made_up,)))
    assert "ones (generated)" in alone
    assert "answered, 3e-06" in alone
    assert "answered: within the tolerance, on an example that a tool made up." in alone
    assert [word for word in ("equal", "match", "verified") if word in alone] == []


@pytest.mark.parametrize(("problems", "exit_code"), [((), 0), ((PROBLEM,), 1)])
def test_a_model_without_a_reference_is_not_called_equal_and_the_endpoint_is_not_blamed(
    problems: tuple[Problem, ...], exit_code: int
) -> None:
    alone = replace(RIGHT, reference="none", difference=None, tolerance=0.0, no_reference=problems)
    rehearsed = result(BUILT, predictions=(alone,))

    assert rehearsed.exit_code == exit_code
    assert "1 prediction without a reference" in shown(rehearsed)
    assert "equal" not in shown(rehearsed)
    assert "at the endpoint" not in shown(rehearsed)
    assert (f"{RIGHT.example}: no reference\n  no such layer" in shown(rehearsed)) is bool(problems)


def test_a_model_that_got_no_request_fails_with_the_reason_also_next_to_right_ones() -> None:
    problem = Problem(what="reviews has no examples", where="its build.py", fix="give --requests")
    unasked = Prediction(model="reviews", artifact="", example="none", no_request=(problem,))
    alone, both = result(BUILT, predictions=(unasked,)), result(BUILT, predictions=(RIGHT, unasked))

    assert (alone.exit_code, both.exit_code) == (1, 1)
    end = shown(alone).partition("FAILED: 1 of 1 models built, 1 without a request, in 83 s.\n\n")[2]
    assert end.startswith("reviews: no request\n  reviews has no examples\n")
    assert end.endswith("    fix:      give --requests\n\nThen rehearse again: fleet rehearse reviews")
    assert "1 of 1 predictions match their reference, 1 without a request, in" in shown(both)
