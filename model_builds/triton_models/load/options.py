"""The options of `fleet load`, apart from what needs NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from triton_models.base import options as opt

_KNEE, _PAID = "the largest rate", "in an account"


@dataclass(frozen=True, kw_only=True)
class LoadOptions(opt.RepositoryOptions):
    """Options of `fleet load`."""

    names: Sequence[opt.Name] = opt.argument("the models (default: all that are published)", nargs="*")
    rate: opt.Rates | None = opt.option(
        "requests per second, such as 50/s or 3000/min; or steps, such as 10/s,20/s,40/s"
    )
    duration: opt.Duration | None = opt.option(
        "how long, such as 5m; of each step, if there are several", "--for"
    )
    trace: opt.File | None = opt.option(
        "send this trace instead: a CSV file with the columns seconds and model, as --output writes it",
        within=opt.EITHER,
    )
    scenario: opt.File | None = opt.option(
        "send the traffic of this scenario of `fleet rehearse` instead; its model N is the Nth model",
        within=opt.EITHER,
    )
    burstiness: float = opt.option(
        "the variation of the gaps between requests: 0 is even, 1 a Poisson process, more are bursts",
        default=1.0,
        type=opt.not_negative,
        metavar="CV",
    )
    popularity: opt.Popularity = opt.option(
        "the exponent of Zipf's law over the models: 0 asks all equally often (default: 0)", default=0.0
    )
    present: tuple[float, float] | None = opt.option(
        "models come and go: the mean times for which one is asked and is not, such as 10m/1h",
        type=opt.times,
        metavar="HERE/AWAY",
    )
    find_knee: bool = opt.flag(
        "raise the rate from --rate until it is too much, --for each, and print the scaling target",
        within=_KNEE,
    )
    p99: opt.Duration | None = opt.option("a rate whose 99th percentile is above is too much", within=_KNEE)
    gpus: opt.Count | None = opt.option(
        "the number of GPUs (default: those of the endpoint's instances)", within=_KNEE
    )
    growth: float = opt.option(
        "how fast load grows, a minute, while an instance starts",
        default=20.0,
        type=opt.not_negative,
        metavar="PERCENT",
        within=_KNEE,
    )
    start: opt.Duration = opt.option(
        "how long an instance takes to start (default: 12m)", default=720.0, within=_KNEE
    )
    scaling: bool = opt.flag("search although the endpoint scales meanwhile", within=_KNEE)
    budget: float | None = opt.option(
        "end when the endpoint's instances have cost this much", type=opt.seconds, metavar="USD", within=_PAID
    )
    yes: bool = opt.flag("do not ask whether to send the requests", within=_PAID)
    seed: opt.Integer | None = opt.option("the seed of the schedule (default: a new one)")
    input: Sequence[str] = opt.option(
        "an input, as for `fleet invoke` (default: the request that the build has stored, or zeros)",
        action="append",
        default=(),
        metavar="NAME=VALUE",
    )
    deadline: opt.Seconds = opt.option("the time after which a request has failed", default=70.0)
    output: opt.Folder | None = opt.option(
        "write the schedule, all requests and the figures here", "-o", "--output"
    )
    alias: opt.Name | None = opt.option(opt.ALIAS, within=opt.ONE)
    endpoint: opt.Name | None = opt.option(opt.ENDPOINT, within=opt.ONE)
    target: opt.Target | None = opt.option(opt.ENDPOINT_TARGET)
    triton: opt.Url | None = opt.option(
        "a Triton server instead, such as http://localhost:8000", within=opt.ONE
    )
