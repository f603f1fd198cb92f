"""Results say what they prove: what was compared with what, and in which precision an artifact computes."""

from __future__ import annotations

from typing import Any

import pytest

from triton_models.artifact.compared import Compared, Range
from triton_models.artifact.evidence import Evidence, evidence_of, precision_of

PIXELS = {"x": Range(low=0.0, high=255.0, why="pixels")}


def compared(drawn: int = 512, **values: Any) -> Compared:
    return Compared(**{"examples": 0, "drawn": drawn, "allowed": 1e-4, "precision": "fp32", **values})


def evidence(**values: Any) -> Evidence:
    return Evidence(**{"model": "top", "precision": "fp32", **values})


@pytest.mark.parametrize(
    ("known", "status", "words"),
    [
        (
            evidence(examples=3, compared={"top": compared()}),
            "equal",
            "equal on 3 of your examples and 512 drawn rows",
        ),
        (evidence(examples=3), "equal", "equal on 3 of your examples"),
        (evidence(compared={"top": compared(1)}), "equal", "equal on 1 drawn row"),
        (
            evidence(examples=1, compared={"top": compared(ranges=PIXELS)}),
            "equal",
            "equal on 1 of your examples and 512 drawn rows, x between 0 and 255 (pixels)",
        ),
        (
            evidence(compared={"top": compared()}, generated=1, generated_equal=True),
            "equal",
            "equal on 512 drawn rows; answered 1 generated example as its source does",
        ),
        (evidence(), "loads", "loads; nothing was compared"),
        (evidence(generated=1), "loads", "loads; answered 1 generated example"),
        (
            evidence(generated=2, generated_equal=True),
            "loads",
            "loads; answered 2 generated examples as its source does",
        ),
        (evidence(answered=2), "loads", "loads; answered 2 of your examples, not compared"),
        (
            evidence(examples=2, compared={"encoder": compared()}),
            "equal",
            "equal on 2 of your examples; encoder is equal on 512 drawn rows",
        ),
        (
            evidence(compared={"encoder": compared(ranges=PIXELS)}),
            "loads",
            "loads; encoder is equal on 512 drawn rows, x between 0 and 255 (pixels)",
        ),
        (
            evidence(compared={"a": compared(8), "b": compared(16)}),
            "loads",
            "loads; a and b are equal on 8 drawn rows each",
        ),
        (
            evidence(compared={name: compared(9) for name in "abc"}),
            "loads",
            "loads; 3 of its models are equal on 9 drawn rows each",
        ),
        (
            evidence(loaded=False, compared={"encoder": compared()}),
            "unknown",
            "encoder is equal on 512 drawn rows",
        ),
        (evidence(loaded=False), "unknown", "unknown; no verification is recorded"),
        (
            evidence(answered=2, compared={"top": compared(0, unproven="features 0 and 3")}),
            "loads",
            "loads; answered 2 of your examples; not compared, as it splits features 0 and 3 in FP64 and "
            "reads FP32",
        ),
    ],
)
def test_the_words_say_what_was_compared_and_no_more(known: Evidence, status: str, words: str) -> None:
    assert (known.status, known.words()) == (status, words)
    assert "verified" not in words


def document(**values: Any) -> dict[str, Any]:
    return {"examples": 2, "drawn": 64, "allowed": 0.01, "precision": "fp16", **values}


@pytest.mark.parametrize(
    ("build", "precision"),
    [
        ({}, "unknown"),
        ({"model": "net"}, "fp32"),
        ({"precisions": ["fp16"]}, "fp16"),
        ({"model": "net", "precision": "fp16", "precisions": ["tf32"]}, "fp16"),
        ({"model": "net", "precision": "\x1b[2J"}, "fp32"),
        ({"precisions": ["fp32", "fp16"]}, "fp16+fp32"),
        ({"compared": {"net": document()}}, "fp16"),
        ({"precisions": ["fp16"], "compared": {"net": document(precision="fp32")}}, "fp16+fp32"),
        ({"precisions": ["tf32"], "compared": {"net": document(precision="fp32")}}, "tf32"),
        (
            {
                "precisions": ["fp16"],
                "plans": {"net/1/model.plan": {}},
                "compared": {"net": document(precision="fp32")},
            },
            "fp16",
        ),
    ],
)
def test_the_precision_is_the_one_that_its_files_compute_in(build: dict[str, Any], precision: str) -> None:
    assert precision_of(build) == precision


def test_a_record_says_what_its_build_compared_and_a_verification_adds_its_examples() -> None:
    build = {"model": "net", "compared": {"net": document()}}
    assert evidence_of(build).words() == "equal on 2 of your examples and 64 drawn rows"
    assert evidence_of(build, examples=3).words() == "equal on 3 of your examples and 64 drawn rows"
    assert evidence_of({"model": "net"}, examples=0).words() == "loads; nothing was compared"
    assert evidence_of({"model": "net"}).status == "unknown"


@pytest.mark.parametrize(
    "compared",
    [
        *(7, [], {"net": 7}, {"net": {}}, {"net": document(drawn="\x1b[2J")}, {"net": document(examples=-1)}),
        *({"net": document(precision="fp1024")}, {"net": document(precision=[])}),
        {"net": document(ranges={"x": {"between": ["a", "b"], "why": "w"}})},
        {"net": document(ranges={"x": {"between": [1], "why": "w"}})},
        {"net": document(ranges={"x": {"between": [0, 1], "why": 3}})},
        {"net": document(ranges={"x": {"between": [0, 1], "why": "\x1b[2J"}})},
        {"net": document(ranges={"\x1b[2J": {"between": [0, 1], "why": "w"}})},
        {"net": document(), "\x1b[2J": document()},
    ],
)
def test_a_record_from_outside_that_no_build_wrote_proves_nothing(compared: Any) -> None:
    build = {"model": "net", "compared": compared, "precisions": [["fp16"], 3]}
    assert (evidence_of(build).status, precision_of(build)) == ("unknown", "fp32")


def test_examples_of_a_forest_that_splits_in_fp64_are_no_evidence() -> None:
    record = {"model": "top", "compared": {"top": compared(0, unproven="feature 1").as_dict()}}
    known = evidence_of(record, examples=3)
    assert (known.status, known.examples) == ("loads", 0)
