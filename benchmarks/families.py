"""The time to build, verify and publish members of a family, and as many models of folders of their own."""

from __future__ import annotations

import itertools
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.ratio import Ratio, measure
from embedded_aws import EmbeddedAws
from triton_models.deliver.deliver import Delivery, deliver

# A process starts once for all members, and a framework is imported once: the ratio grows with their number.
MEMBERS = int(os.environ.get("FLEET_BENCH_MEMBERS", "20"))
[FAMILY] = re.findall(
    r"```python\n(.*?)```", (Path(__file__).parents[1] / "docs" / "tenants.md").read_text(), flags=re.DOTALL
)
_buckets = itertools.count(1)


def ratios(*, short: bool) -> Iterator[Ratio]:
    """`fleet deliver` of a family, and of as many models that are declared one by one."""
    count = 2 if short else MEMBERS
    names = [f"t{number}" for number in range(count)]
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as name, EmbeddedAws() as aws:
        models = Path(name) / "models"
        _write(models / "tenants", FAMILY)
        lines = ["name,weights,classes", *(f"{each},,2" for each in names), ""]
        (models / "tenants" / "members.csv").write_text("\n".join(lines))
        alone = FAMILY.partition("BUILD = Family(")[0]
        for each in names:
            member = f'Member(family="{each}", weights=RandomWeights(seed=1), parameters=Tenant())'
            _write(models / each, f"{alone}BUILD = model({member})\n")
        yield measure(
            f"deliver {count} models of one small network",
            ours=("members of a family", lambda: _deliver(aws, models, ["tenants"], count)),
            theirs=("a folder for each", lambda: _deliver(aws, models, names, count)),
            pairs=1,
            short=short,
        )


def _write(folder: Path, declaration: str) -> None:
    folder.mkdir(parents=True)
    (folder / "build.py").write_text(declaration)


def _deliver(aws: EmbeddedAws, models: Path, names: Sequence[str], count: int) -> None:
    s3, bucket = aws.client("s3"), f"bench-{next(_buckets)}"
    s3.create_bucket(Bucket=bucket)
    delivery = Delivery(
        repository=f"s3://{bucket}/models/", models=models, portable=True, logs=models.parent / "logs"
    )
    results = deliver(names, delivery, s3=s3)
    if results.counts()["published"] != count:
        raise RuntimeError(results.counts())
