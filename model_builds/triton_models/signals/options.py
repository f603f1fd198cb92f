"""The options of `fleet why`, apart from what needs boto3."""

from __future__ import annotations

from dataclasses import dataclass

from triton_models.base import options as opt


@dataclass(frozen=True, kw_only=True)
class WhyOptions(opt.RepositoryOptions):
    """Options of `fleet why`."""

    model: opt.Name = opt.argument("the model's name in the repository")
    alias: opt.Name | None = opt.option(opt.ALIAS, within=opt.ONE)
    endpoint: opt.Name | None = opt.option(opt.ENDPOINT, within=opt.ONE)
    target: opt.Target | None = opt.option(opt.ENDPOINT_TARGET)
    signals: opt.Url | None = opt.option(opt.SIGNALS)
    duration: opt.Duration = opt.option("how far to look back (default: 3h)", "--for", default=10_800.0)
