"""The time to build, verify and publish members of a family, and as many models of folders of their own."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

from benchmarks.ratio import Bench, Ratio
from embedded_aws import EmbeddedAws
from triton_models.deliver.deliver import DeliverOptions, deliver

# A process starts once for all members, and a framework is imported once: the ratio grows with their number.
MEMBERS = int(os.environ.get("FLEET_BENCH_MEMBERS", "20"))
[FAMILY] = re.findall(
    r"```python\n(.*?)```", (Path(__file__).parents[1] / "docs" / "tenants.md").read_text(), flags=re.DOTALL
)


def ratios(bench: Bench) -> Iterator[Ratio]:
    """`fleet deliver` of a family, and of as many models that are declared one by one."""
    names = [f"t{number}" for number in range(2 if bench.short else MEMBERS)]
    models, buckets = bench.folder / "models", itertools.count(1)
    _write(models / "tenants", FAMILY)
    lines = ["name,weights,classes", *(f"{name},,2" for name in names), ""]
    (models / "tenants" / "members.csv").write_text("\n".join(lines))
    alone = FAMILY.partition("BUILD = Family(")[0]
    for name in names:
        member = f'Member(family="{name}", weights=RandomWeights(seed=1), parameters=Tenant())'
        _write(models / name, f"{alone}BUILD = model({member})\n")
    with EmbeddedAws() as aws:
        s3 = aws.client("s3")

        def publish(folders: list[str]) -> None:
            bucket = f"bench-{next(buckets)}"
            s3.create_bucket(Bucket=bucket)
            repository, logs = f"s3://{bucket}/models/", bench.folder / "logs"
            options = DeliverOptions(
                names=folders, repository=repository, models=models, portable=True, logs=logs
            )
            counts = deliver(options, s3=s3).counts()
            if counts["published"] != len(names):
                raise RuntimeError(counts)

        yield bench.measure(
            f"deliver {len(names)} models of one small network",
            ours=("members of a family", lambda: publish(["tenants"])),
            theirs=("a folder for each", lambda: publish(names)),
            pairs=1,
        )


def _write(folder: Path, declaration: str) -> None:
    folder.mkdir(parents=True)
    (folder / "build.py").write_text(declaration)
