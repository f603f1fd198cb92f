"""Tables that fit a width."""

from __future__ import annotations

import sys

import pytest

from triton_models.base.tables import LOG_WIDTH, Column, output_width, table

NAMES = Column(title="model", cells=["minilm", "a"])
DIGESTS = Column(
    title="artifact", cells=["minilm-0123456789abcdef.tar.gz", "a"], short=["0123456789abcdef", "a"]
)
SIZES = Column(title="MB", cells=["95.4", "1,000.0"], right=True, rank=1)
NOTE = Column(title="by", cells=["someone with a long name", "b"], rank=2)


def lines(*columns: Column, width: int) -> list[str]:
    return list(table(columns, width=width))


def test_a_table_fits_its_width_by_shorter_texts_and_then_by_fewer_columns() -> None:
    assert lines(NAMES, SIZES, NOTE, width=80) == [
        "model        MB  by",
        "minilm     95.4  someone with a long name",
        "a       1,000.0  b",
    ]
    assert lines(NAMES, DIGESTS, SIZES, width=40)[1] == "minilm  0123456789abcdef     95.4"
    assert lines(NAMES, SIZES, NOTE, width=20)[0].split() == ["model", "MB"]
    assert lines(NAMES, SIZES, NOTE, width=10)[0].split() == ["model"]


def test_a_long_text_at_the_end_wraps_at_words_below_itself() -> None:
    text = Column(
        title="reason",
        cells=["one two three four five six seven", "s3://bucket/a-very-long-key-that-is-whole"],
    )
    shown = lines(Column(title="model", cells=["a", "b"]), text, width=32)

    assert shown[1:3] == ["a      one two three four five", "       six seven"]
    assert shown[3] == "b      s3://bucket/a-very-long-key-that-is-whole"


@pytest.mark.parametrize(("columns", "width"), [("72", 72), ("", LOG_WIDTH), ("wide", LOG_WIDTH)])
def test_without_a_terminal_the_width_is_that_of_columns_or_of_a_log(
    columns: str, width: int, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    with (tmp_path / "log").open("w") as log:
        monkeypatch.setattr(sys, "stdout", log)

        assert output_width() == width
