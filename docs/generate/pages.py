"""The pages of data: the settings, the command line, the beliefs, and what the embedded AWS covers."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, get_args

from conformance import beliefs as believed
from conformance.records import Record, records
from docs.generate import ROOT
from embedded_aws import coverage
from triton_fleet.app.config import FleetConfig
from triton_models.builds.floor import NetworkCost
from triton_models.cli.main import PROGRAM, SECTIONS, VERBS, options_class
from triton_models.cli.parser import add_options
from triton_models.facts.gpu_peaks import PEAKS
from triton_models.facts.tensorrt import Precision

_SETTINGS = """\
# Settings

`cdk.json` holds the settings of the fleet under `context.tritonFleet`. Every key has a default. An unknown
key, a value of the wrong kind and values that do not fit together fail at `cdk synth`, all at once.

```json
{"context": {"tritonFleet": {"instance_type": "ml.g5.2xlarge", "models": ["minilm"], "max_capacity": 4}}}
```

`-c` changes a setting for one command: `npx cdk deploy --all -c max_capacity=8 -c models=minilm,resnet50`.

An editor completes and checks the keys with a schema: `python -m triton_fleet.app.schema > cdk.schema.json`
writes it. In VS Code: `"json.schemas": [{"fileMatch": ["cdk.json"], "url": "./cdk.schema.json"}]`.

| key | kind | default | meaning |
|---|---|---|---|
"""
_COMMAND_LINE = """\
# The `fleet` command

`fleet VERB --help` prints the same. Every verb takes `--json`, which prints the result, or the errors, as one
JSON document. The exit status is 0 for success, 1 for a mistake or a refusal, 2 for wrong usage, and 130 if
interrupted.
"""
_BELIEFS = """\
# Beliefs

Every fact about AWS, Triton, TensorRT or an image that a default, a check or a stand-in rests on, and that
was not observed here. The grade says how well it is founded: *public record* (what others saw and published),
*AWS documentation*, *documentation*, *source read* or *assumption*. A run of the
[conformance](../conformance/index.md) suite makes it *observed* or **refuted**.
"""
_FLOORS = """\
# Floors and measurements

The floor of a network is the least time that its arithmetic and its bytes need on a GPU, by the GPU's peaks.
`fleet compare NAME --gpu GPU` prints it for your own models. Below are the floors of five networks for
batches of 8, then every measurement on a GPU that is on record, with its multiple of the floor.

Times in ms, in FP32 and FP16.
"""
_BATCH = 8
_SHOWN = ("T4", "A10G", "L4", "L40S", "A100-40GB", "H100")
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
_HOSTING = """\
InvokeEndpoint is answered by `fleet rehearse`, with real Triton servers. See also
[the embedded AWS](../embedded-aws/index.md).
"""


def settings() -> str:
    """Return the page of the settings in `cdk.json`, from the JSON schema of FleetConfig."""
    rows = "\n".join(
        _setting(name, each) for name, each in FleetConfig.model_json_schema()["properties"].items()
    )
    _, *notes = inspect.cleandoc(FleetConfig.__doc__ or "").split("\n\n")
    return f"{_SETTINGS}{rows}\n\n" + "\n\n".join(map(_note, notes)) + "\n"


def _note(paragraph: str) -> str:
    """Return a paragraph such as "Updates: every strategy ..." with its subject as the heading."""
    subject, _, text = paragraph.partition(": ")
    return f"## {subject}\n\n{text[0].upper()}{text[1:]}"


def _setting(name: str, schema: Mapping[str, Any]) -> str:
    default = "" if schema["default"] is None else f"`{json.dumps(schema['default'])}`"
    meaning = " ".join(schema["description"].split())
    return f"| `{name}` | {' or '.join(dict.fromkeys(_kinds(schema)))} | {default} | {meaning} |"


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    """Return the JSON types of a setting, or its words."""
    if "enum" in schema:
        return [f"`{json.dumps(each)}`" for each in schema["enum"]]
    kinds = schema.get("type", "object")
    alternatives = [kind for each in schema.get("anyOf", ()) for kind in _kinds(each)]
    return [each for each in alternatives or ([kinds] if isinstance(kinds, str) else kinds) if each != "null"]


def command_line() -> str:
    """Return the page of `fleet`: what `fleet VERB --help` prints, for every verb."""
    os.environ["COLUMNS"] = "100"
    parts = [_COMMAND_LINE]
    for title, names in SECTIONS.items():
        parts += [f"## {title}", ""]
        for name in names:
            parser = argparse.ArgumentParser(prog=f"{PROGRAM} {name}", description=VERBS[name].help)
            add_options(parser, options_class(name))
            parts += [f"### {PROGRAM} {name}", "", "```text", parser.format_help().rstrip(), "```", ""]
    return "\n".join(parts)


def beliefs() -> str:
    """Return the page of the beliefs, with what the records of conformance runs say about them."""
    seen, parts = list(records()), [_BELIEFS]
    for subject, rows in groupby(believed.beliefs().values(), lambda each: each.subject):
        parts.append(f"## {_SUBJECTS[subject]}\n")
        parts.append("| id | belief | grade | what depends on it | decided by | if it is false |")
        parts.append("|---|---|---|---|---|---|")
        parts += [_belief(row, seen) for row in rows]
        parts.append("")
    return "\n".join(parts)


def grade(row: believed.Belief, seen: Iterable[Record]) -> str:
    """Return the grade of a belief: what runs have found, otherwise that of its source."""
    words = {"true": "observed", "false": "**refuted**"}
    found = [(each, each.verdicts[row.id]) for each in seen if row.id in each.verdicts]
    lines = [
        f"{words[verdict['outcome']]} on {verdict['date']}, release {record.release}, {record.place}"
        for record, verdict in found
        if verdict["outcome"] in words
    ]
    return "; ".join(lines) or row.grade


def _belief(row: believed.Belief, seen: Iterable[Record]) -> str:
    cells = (
        f'<a id="{row.id}"></a>`{row.id}`',
        row.belief,
        f"{grade(row, seen)} ({'; '.join(_origins(row))})",
        ", ".join(f"`{name}`" for name in row.depends),
        f"`{row.test}`" if row.test else row.command,
        row.if_false,
    )
    return f"| {' | '.join(each.replace('|', chr(92) + '|') for each in cells)} |"


def _origins(row: believed.Belief) -> Iterator[str]:
    yield from (f"{each['repository']} {each['at']}: {each['seen']}" for each in row.records)
    if row.source:
        yield row.source
    yield row.date.isoformat()


def embedded_aws() -> str:
    """Return the page of the embedded AWS: its operations and resource types, and where moto differs."""
    differences = (ROOT / "embedded-aws" / "moto_tests.json").read_text(encoding="utf-8")
    listed: Mapping[str, list[str]] = json.loads(differences)
    number = sum(map(len, listed.values()))
    rows = [f"| {reason} | {', '.join(map(_test, tests))} |" for reason, tests in sorted(listed.items())]
    return "\n".join(
        (
            coverage.page(),
            _HOSTING,
            "## moto's own tests\n",
            f"{number} of moto's tests of these services pass against moto alone, and not here:\n",
            "| reason | tests |\n|---|---|",
            *rows,
            "",
            "`python embedded-aws/moto_tests.py` runs them again, and fails on one that is not listed.",
            "",
        )
    )


def _test(test: str) -> str:
    return f"`{test.partition('::')[2].partition('[')[0]}`"


def floors() -> str:
    """Return the page of floors, and of what was measured on GPUs."""
    records = [json.loads(each.read_text()) for each in sorted((ROOT / "docs" / "measured").glob("*.json"))]
    counted_once = [each for record in records for each in record["networks"] if each["batch"] == _BATCH]
    networks = {each["network"]: each for each in counted_once if "row" in each}
    parts = [
        _FLOORS,
        "| network | row | GFLOP | " + " | ".join(_SHOWN) + " |",
        "|" + "---|" * (3 + len(_SHOWN)),
    ]
    for name, counted in networks.items():
        cells = (f"{_floor(counted, gpu, 'fp32'):.2g}, {_floor(counted, gpu, 'fp16'):.2g}" for gpu in _SHOWN)
        parts.append(
            f"| {name} | {counted['row']} | {counted['operations'] / 1e9:.0f} | {' | '.join(cells)} |"
        )
    for record in records:
        parts.append(_measured(record))
    return "\n".join(parts) + "\n"


def _measured(record: Mapping[str, Any]) -> str:
    """Return the table of one record: for each network and batch, milliseconds and multiples of the floor."""
    forms = list(dict.fromkeys(form for each in record["networks"] for form in each["median_ms"]))
    driver = f"Driver {record['driver']}, " if record["driver"] else ""
    lines = [
        f"\n## {record['card']}",
        f"\n{driver}{record['date']}: {record['with']}. Times in ms, then their multiple of the floor.\n",
        f"| network | batch | {' | '.join(forms)} |",
        "|" + "---|" * (2 + len(forms)),
    ]
    for each in record["networks"]:
        cells = []
        for form in forms:
            if (ms := each["median_ms"].get(form)) is None:
                cells.append("")
                continue
            precision = next(part for part in re.split(r"[ +]", form) if part in get_args(Precision))
            cells.append(f"{ms:.3g}, {ms / _floor(each, record['gpu'], precision):.0f}x")
        lines.append(f"| {each['network']} | {each['batch']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _floor(counted: Mapping[str, Any], gpu: str, precision: Any) -> float:
    """Return the floor in milliseconds of a network in a record."""
    sizes = {key: counted[key] for key in ("batch", "operations", "weights", "between", "groups", "ends")}
    return NetworkCost(**sizes, uncounted={}).floor(PEAKS[gpu], precision).least_s * 1e3
