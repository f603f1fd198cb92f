"""The result of `fleet smoke`."""

from __future__ import annotations

import pytest

from triton_models.base.errors import Problem
from triton_rehearsal.rehearse.predictions import Prediction
from triton_rehearsal.rehearse.smoke import SmokeResult

PROBLEM = Problem(what="no answer", where="the endpoint", expected="one", fix="wait")


def _answer(difference: float) -> Prediction:
    return Prediction(
        model="double",
        artifact="double-0123456789abcdef.tar.gz",
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
