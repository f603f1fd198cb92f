"""The result of `fleet smoke`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.triton_models.publishing_aws import EARLIER, file_name, record_of
from triton_models.base.errors import Problem
from triton_models.repository.manifest import Manifest, Publication
from triton_rehearsal.rehearse.predictions import Prediction
from triton_rehearsal.rehearse.smoke import SmokeResult, artifacts_of

PROBLEM = Problem(what="no answer", where="the endpoint", fix="wait")


FIRST, SECOND = file_name("double", "1"), file_name("double", "2")


def _answer(difference: float, artifact: str = FIRST) -> Prediction:
    return Prediction(
        model="double",
        artifact=artifact,
        example="one row",
        cold_ms=1.0,
        warm_ms=1.0,
        output="[1, 3] 2.0000 2.0000…",
        reference="2.0000 2.0000…",
        difference=difference,
        tolerance=0.1,
    )


UNANSWERED = Prediction(model="double", artifact="", example="one row", problems=(PROBLEM,))


@pytest.mark.parametrize(
    ("predictions", "exit_code"),
    [((_answer(0.1),), 0), ((_answer(0.0), _answer(0.2)), 1), ((_answer(0.0), UNANSWERED), 1), ((), 1)],
    ids=["right", "one is wrong", "one is missing", "none"],
)
def test_it_passes_if_every_answer_is_right(predictions: tuple[Prediction, ...], exit_code: int) -> None:
    result = SmokeResult(endpoint="Fleet-g5-2xlarge-25-09", predictions=predictions)

    assert result.exit_code == exit_code
    assert result.as_dict()["passed"] == (exit_code == 0)
    assert ("no answer" in "\n".join(result.lines())) == (UNANSWERED in predictions)


def test_the_last_line_says_what_the_answers_prove() -> None:
    right = replace(_answer(0.0), precision="fp16")
    alone, made_up = replace(right, difference=None), replace(right, generated=True)
    result = SmokeResult(endpoint="Fleet", predictions=(right, made_up, alone))
    _, _, first, *_, last = result.lines()
    assert first.split()[:2] == ["double", "fp16"]
    assert last == (
        "1 of 1 predictions match their reference, 1 of 1 generated example answered, "
        "1 prediction without a reference, at Fleet."
    )


@pytest.mark.parametrize(
    ("predictions", "passed"),
    [
        ((_answer(0.1), _answer(0.0)), True),
        ((_answer(0.2),), False),
        ((_answer(0.0), UNANSWERED), False),
        ((_answer(0.0), _answer(0.0, SECOND)), False),
        ((_answer(0.0, file_name("double", "3")),), False),
    ],
    ids=["right", "wrong", "missing", "moved meanwhile", "unknown"],
)
def test_the_artifacts_that_answered_are_known_by_their_digests(
    predictions: tuple[Prediction, ...], passed: bool
) -> None:
    manifest = Manifest()
    for each in (FIRST, SECOND):
        wanted = [Publication(model="double", artifact=each, record=record_of(each))]
        manifest = manifest.with_published(wanted, at=EARLIER, by="ann")
    result = SmokeResult(endpoint="any", predictions=predictions)

    found = artifacts_of(result, manifest, repository="s3://b/", target=None)

    assert found.passed is passed
    if passed:
        assert found.artifacts == {"double": record_of(FIRST).sha256}
