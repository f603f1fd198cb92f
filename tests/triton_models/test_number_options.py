"""Options that are numbers: what is refused, and that the error shows what was given."""

from __future__ import annotations

import pytest

from triton_models.cli.main import main
from triton_models.cli.options import count, seconds

COUNTS = (
    ["compare", "resnet50", "--requests"],
    ["compare", "resnet50", "--concurrency"],
    ["compare", "resnet50", "--cold-starts"],
    ["diff", "--models-per-build"],
    ["pack", "build/resnet50", "-o", "dist", "--copies"],
)
TIMES = (
    ["build", "minilm", "--compile-timeout"],
    ["deliver", "minilm", "--repository", "s3://models/", "--model-timeout"],
)


@pytest.mark.parametrize(
    ("command", "given"),
    [
        *((command, given) for command in COUNTS for given in ("0", "-1", "1.5", "many")),
        *((command, given) for command in TIMES for given in ("0", "-1", "nan", "inf", "soon")),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value[0]} {value[-1]}",
)
def test_a_number_that_makes_no_sense_is_wrong_usage_and_shown(
    command: list[str], given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command, given])

    assert ended.value.code == 2
    assert f"argument {command[-1]}: {given!r}: expected" in capsys.readouterr().err


def test_the_smallest_numbers_are_taken() -> None:
    assert (count("1"), seconds("0.1")) == (1, 0.1)
