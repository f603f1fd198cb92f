"""`make bench`: every measurement, as a table of ratios.

`make bench BENCH=--short` takes a minute and shows only that each of them runs.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import calls, families, forms, synthesis
from benchmarks.ratio import Bench


def main() -> None:
    """Measure and print. The times belong to this machine and this minute; the ratios travel better."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--short", action="store_true", help="time one round of each, of less work")
    short: bool = parser.parse_args().short
    table = Table(title="Times of the other way over ours, pair by pair", title_justify="left")
    for column in ("what", "ours", "median", "the other way", "median", "ratio", "range"):
        numeric = column in {"median", "ratio", "range"}
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for part in (calls, families, forms, synthesis):
        with tempfile.TemporaryDirectory(prefix="fleet-bench-") as folder:
            for ratio in part.ratios(Bench(folder=Path(folder), short=short)):
                table.add_row(*ratio.cells())
    console = Console()
    console.width = max(console.width, 130)
    console.print(table)


if __name__ == "__main__":
    main()
