"""The page of the beliefs, with what the records of conformance runs say about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from conformance.beliefs import Belief, beliefs
from conformance.records import Record, records

_HEAD = """\
# Beliefs

Every fact about AWS, Triton, TensorRT or an image that a default, a check or a stand-in rests on, and that
was not observed here. The grade says how well it is founded: *public record* (what others saw and published),
*AWS documentation*, *documentation*, *source read* or *assumption*. A run of the
[conformance](../conformance/index.md) suite makes it *observed* or **refuted**.
"""
_SUBJECTS = {
    "gpu": "GPUs and TensorRT",
    "images": "Triton's images",
    "server": "Triton's server",
    "endpoints": "SageMaker endpoints",
    "containers": "Containers and callers of endpoints",
    "metrics": "Metrics and scaling",
    "builds": "Builds in AWS",
    "accounts": "Accounts, storage and permissions",
}


def page() -> str:
    """Return the page."""
    seen, parts = list(records()), [_HEAD]
    for subject, rows in groupby(beliefs().values(), lambda each: each.subject):
        parts.append(f"## {_SUBJECTS[subject]}\n")
        parts.append("| id | belief | grade | what depends on it | decided by | if it is false |")
        parts.append("|---|---|---|---|---|---|")
        parts += [_row(row, seen) for row in rows]
        parts.append("")
    return "\n".join(parts)


def grade(row: Belief, seen: Iterable[Record]) -> str:
    """Return the grade of a belief: what runs have found, otherwise that of its source."""
    words = {"true": "observed", "false": "**refuted**"}
    found = [(each, each.verdicts[row.id]) for each in seen if row.id in each.verdicts]
    lines = [
        f"{words[verdict['outcome']]} on {verdict['date']}, release {record.release}, {record.place}"
        for record, verdict in found
        if verdict["outcome"] in words
    ]
    return "; ".join(lines) or row.grade


def _row(row: Belief, seen: Iterable[Record]) -> str:
    cells = (
        f'<a id="{row.id}"></a>`{row.id}`',
        row.belief,
        f"{grade(row, seen)} ({'; '.join(_origins(row))})",
        ", ".join(f"`{name}`" for name in row.depends),
        f"`{row.test}`" if row.test else "; ".join(filter(None, (row.command, row.no_test))),
        row.if_false,
    )
    return f"| {' | '.join(each.replace('|', chr(92) + '|') for each in cells)} |"


def _origins(row: Belief) -> Iterator[str]:
    yield from (f"{each['repository']} {each['at']}: {each['seen']}" for each in row.records)
    if row.source:
        yield row.source
    yield row.date.isoformat()
