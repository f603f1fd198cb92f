"""`make bench`: every measurement, as a table of ratios.

`make bench BENCH=--short` takes a minute and shows only that each of them runs.
"""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from benchmarks import checking, command_line, hosting, packing, publishing, serving, synthesis


def main() -> None:
    """Measure and print. The times belong to this machine and this minute; the ratios travel better."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--short", action="store_true", help="time one round of each, of less work")
    short: bool = parser.parse_args().short
    table = Table(title="Times of the other way over ours, pair by pair", title_justify="left")
    for column in ("what", "ours", "median", "the other way", "median", "ratio", "range"):
        table.add_column(
            column, justify="right" if column in {"median", "ratio", "range"} else "left", overflow="fold"
        )
    for ratio in (
        *command_line.ratios(short=short),
        *checking.ratios(short=short),
        *packing.ratios(short=short),
        *publishing.ratios(short=short),
        *serving.ratios(short=short),
        *synthesis.ratios(short=short),
        hosting.cold_start(short=short),
    ):
        table.add_row(
            ratio.subject,
            ratio.ours,
            f"{ratio.ours_s * 1e3:,.0f} ms",
            ratio.theirs,
            f"{ratio.theirs_s * 1e3:,.0f} ms",
            f"{ratio.middle:.1f}",
            f"{ratio.low:.1f} to {ratio.high:.1f}",
        )
    console = Console()
    console.width = max(console.width, 130)
    console.print(table)
    console.print(_hosting(short=short))


def _hosting(*, short: bool) -> Table:
    table = Table(title="Requests per second of a rehearsed endpoint over Triton's own", title_justify="left")
    for column in ("requests", "connections", "InvokeEndpoint", "Triton", "ratio", "range"):
        table.add_column(column, justify="left" if column == "requests" else "right")
    for share in hosting.shares(short=short):
        table.add_row(
            share.subject,
            str(share.connections),
            f"{share.through:,.0f}",
            f"{share.direct:,.0f}",
            f"{share.middle:.2f}",
            f"{share.low:.2f} to {share.high:.2f}",
        )
    return table


if __name__ == "__main__":
    main()
