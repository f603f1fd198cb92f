"""The options of the verbs of this package, whose modules import what is not always installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from triton_models.base import options as opt


@dataclass(frozen=True, kw_only=True)
class RehearseOptions:
    """Options of `fleet rehearse`."""

    names: Sequence[opt.Name] = opt.argument(
        f"{opt.NAMES} (default: the models that the stack builds)", nargs="*", within=opt.EITHER
    )
    all: bool = opt.flag("rehearse every model under model_builds/models/", within=opt.EITHER)
    scenario: str | None = opt.option(
        "play traffic and faults on small models: a YAML file, or an included scenario such as thrash",
        metavar="FILE",
        within=opt.EITHER,
    )
    stage: opt.Name | None = opt.option("a stage in cdk.json (default: the first one, if there are stages)")
    gpu_memory: str | None = opt.option(
        "the memory for models of each GPU, such as 500MiB, to see models evicted (default: that of the "
        "deployed instance type)",
        metavar="SIZE",
    )
    stay: bool = opt.flag("keep everything running until Ctrl-C, and serve a page about it")
    report: opt.File | None = opt.option("write that page to FILE, an .html that needs no network")
    port: int = opt.option("the embedded AWS's port (default: a free one)", default=0, type=int)
    json: bool = False  # of every verb


@dataclass(frozen=True, kw_only=True)
class SmokeOptions(opt.RepositoryOptions):
    """Options of `fleet smoke`."""

    names: Sequence[opt.Name] = opt.argument(f"{opt.NAMES} (default: all that are published)", nargs="*")
    alias: opt.Name = opt.option(opt.ALIAS, required=True)
    tested: opt.File | None = opt.option(
        "write the names and digests of the artifacts that answered, for `fleet promote --only FILE`"
    )
    models: opt.Folder | None = opt.option(opt.MODELS)


@dataclass(frozen=True, kw_only=True)
class CompareOptions(opt.RepositoryOptions):
    """Options of `fleet compare`."""

    names: Sequence[opt.Name] = opt.argument(f"{opt.NAMES}; a folder means all of its forms", nargs="+")
    requests: opt.Count = opt.option("requests per model", default=50)
    concurrency: opt.Count = opt.option("concurrent callers", default=4)
    cold_starts: opt.Count = opt.option("cold starts per model", default=3)
    record: opt.File | None = opt.option("write what an endpoint or a GPU took, as JSON for the docs")
    endpoint: opt.Name | None = opt.option(
        "measure a deployed endpoint, which serves the artifacts in --repository (default: build the "
        "models, and measure them on this machine)",
        within=opt.EITHER,
    )
    gpu: str | None = opt.option(
        "print the least time that each network's arithmetic and bytes need on a GPU; in the Triton "
        "image on a machine with that GPU, also build and measure the models there",
        within=opt.EITHER,
    )
    models: opt.Folder | None = opt.option(opt.MODELS)
