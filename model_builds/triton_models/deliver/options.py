"""The options of `fleet verify` and `fleet census`, apart from what needs NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from triton_models.base import options as opt


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(opt.AccountOptions):
    """Options of `fleet verify`."""

    roots: Sequence[opt.AnyPath] = opt.argument("a model that `fleet build` wrote", "ROOT", nargs="+")
    models: opt.Folder | None = opt.option(opt.MODELS)
    tritonserver: opt.AnyPath | None = opt.option(opt.SERVER)
    log: opt.File | None = opt.option(opt.SERVER_LOG)


@dataclass(frozen=True, kw_only=True)
class CensusOptions(opt.RepositoryOptions):
    """Options of `fleet census`."""

    roots: Sequence[opt.AnyPath] = opt.argument(
        "a model that `fleet build` wrote; with --endpoint, the name of a published one (default: all)",
        "ROOT",
        nargs="*",
    )
    endpoint: opt.Name | None = opt.option("load published models on this endpoint of one instance instead")
    cycles: opt.Count = opt.option("loads of each model, at least 2; ten or more find what leaks", default=3)
    here: bool = opt.flag("measure the host's memory and times, on a machine without a GPU")
    models: opt.Folder | None = opt.option(opt.MODELS)
    tritonserver: opt.AnyPath | None = opt.option(opt.SERVER)
    log: opt.File | None = opt.option(opt.SERVER_LOG)
