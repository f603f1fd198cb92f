"""The options of `fleet plan`, apart from the simulation, which takes long to import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from triton_models.base import options as opt


@dataclass(frozen=True, kw_only=True)
class PlanOptions(opt.RepositoryOptions):
    """Options of `fleet plan`."""

    models: str | None = opt.option(
        "models of a size, such as 300x200MB, or a folder of Triton models or artifacts (default: those "
        "in --repository)",
        metavar="NxSIZE|DIR",
    )
    backend: opt.Name = opt.option(
        "the backend of models of a size: onnxruntime, pytorch or tensorrt", default="onnxruntime"
    )
    busy: opt.Duration | None = opt.option(
        "how long a request keeps a GPU busy (default: 7ms, and 3 to 20 as its range)"
    )
    requests: opt.Rates | None = opt.option(
        "requests per second, such as 50/s or 3000/min", within=opt.EITHER
    )
    trace: opt.File | None = opt.option("a CSV file with the columns seconds and model", within=opt.EITHER)
    scenario: opt.File | None = opt.option(
        "the traffic of a scenario of `fleet rehearse`, such as tenants that come and go", within=opt.EITHER
    )
    counts: opt.File | None = opt.option(
        "a CSV file with the requests of each model, a row, in each minute, a column", within=opt.EITHER
    )
    from_logs: str | None = opt.option(
        "the requests that an endpoint answered, by its log", metavar="ENDPOINT", within=opt.EITHER
    )
    days: float = opt.option("the days of its log", default=7.0, type=opt.seconds, metavar="N")
    popularity: opt.Popularity = opt.option(
        "the exponent of Zipf's law over the models, such as zipf:1.1", default=1.0
    )
    duration: opt.Duration | None = opt.option(
        "the length of --requests (default: that of 2 million, but an hour to a day)", "--for"
    )
    seed: opt.Integer = opt.option("the seed", default=1)
    waiting: opt.Share = opt.option(
        "the largest share of requests that may wait for a load (default: 1%%)", default=0.01
    )
    p99: opt.Duration | None = opt.option("the largest 99th percentile")
    pin: int | float = opt.option(
        "keep the most popular models loaded", default=0, type=opt.count_or_share, metavar="N|SHARE"
    )
    types: Sequence[opt.Type] | None = opt.option(
        "the instance types (default: those that AWS documents for multi-model endpoints on GPUs)", nargs="+"
    )
    price: opt.Usd | None = opt.option("the price of the type per hour")
    compare: str | None = opt.option(
        "say what the plan saves, compared with what this endpoint has", metavar="ENDPOINT"
    )
    report: opt.File | None = opt.option("write a page about the plan to FILE, an .html")
    write: opt.File | None = opt.option(
        "write the settings of the cheapest fleet into a cdk.json", nargs="?", const=Path("cdk.json")
    )
