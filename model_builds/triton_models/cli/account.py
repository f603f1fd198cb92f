"""The arguments of the verbs about a model repository, a change before it is deployed, and an account."""

from __future__ import annotations

import argparse
from pathlib import Path

from triton_models.cli.options import (
    NAME_HELP,
    add_account,
    add_count,
    add_instance_type,
    add_models,
    add_portable,
    add_repository,
    count,
    count_or_share,
    duration,
    month,
    not_negative,
    popularity,
    rates,
    seconds,
    share,
    times,
)


def publish(parser: argparse.ArgumentParser) -> None:
    """Upload artifacts and make them current."""
    parser.add_argument(
        "artifacts", nargs="+", type=Path, metavar="ARTIFACT", help="a .tar.gz that `fleet pack` wrote"
    )
    add_portable(parser)
    parser.add_argument(
        "--target",
        metavar="TARGET",
        help="make them current for this target only, such as sm86-trt10.13.3 (default: all that they run "
        "on)",
    )
    trial = parser.add_mutually_exclusive_group()
    trial.add_argument(
        "--share",
        type=share,
        metavar="SHARE",
        help="give them a share of their models' requests instead, such as 5%%: see `fleet rollout`",
    )
    _add_shadow(parser, trial)
    add_repository(parser)
    parser.set_defaults(run="triton_models.repository.publish")


def _add_shadow(parser: argparse.ArgumentParser, group: argparse._MutuallyExclusiveGroup) -> None:
    group.add_argument(
        "--shadow", type=share, metavar="SHARE", help="give it copies of a share, and compare its answers"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="NUMBER",
        help="the largest difference of a shadow's answers (default: as declared)",
    )


def rollout(parser: argparse.ArgumentParser) -> None:
    """Show a model's candidate next to its current version, and promote it or take it back."""
    parser.add_argument("model", metavar="NAME", help="the model")
    end = parser.add_mutually_exclusive_group()
    end.add_argument("--promote", action="store_true", help="make the candidate current")
    end.add_argument("--return", dest="back", action="store_true", help="send it no more requests")
    end.add_argument("--share", type=share, metavar="SHARE", help="give it another share, such as 20%%")
    _add_shadow(parser, end)
    end.add_argument(
        "--watch",
        type=duration,
        metavar="TIME",
        help="compare both for so long, and promote it or take it back as soon as they differ or do not",
    )
    parser.add_argument("--signals", metavar="URL", help="where clients write: see `fleet top`")
    _add_place(parser, required=False)
    add_repository(parser)
    parser.set_defaults(run="triton_models.signals.rollout")


def history(parser: argparse.ArgumentParser) -> None:
    """List the published and the current artifacts."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these models")
    parser.add_argument("--verify", action="store_true", help="read every artifact and compare its SHA-256")
    add_repository(parser)
    parser.set_defaults(run="triton_models.repository.history")


def _add_watch(parser: argparse.ArgumentParser, what: str) -> None:
    watch = parser.add_argument_group("watch alarms")
    watch.add_argument("--watch", type=duration, metavar="TIME", help=what)
    watch.add_argument(
        "--alarms",
        nargs="+",
        default=[],
        metavar="ALARM",
        help="the CloudWatch alarms, metric or composite, in the region of the repository",
    )
    watch.add_argument("--endpoint", metavar="ENDPOINT", help="also the rollback alarms of this endpoint")


def rollback(parser: argparse.ArgumentParser) -> None:
    """Make earlier artifacts current again."""
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("model", nargs="?", metavar="NAME", help="the model")
    chosen.add_argument(
        "--run",
        dest="of_run",
        metavar="RUN",
        help="instead, all models that one promotion or build has moved, in one write: its id in `fleet "
        "history`, or last",
    )
    parser.add_argument(
        "--to",
        metavar="ARTIFACT",
        help="the file name or digest of the artifact (default: the one before the current one)",
    )
    parser.add_argument(
        "--target",
        metavar="TARGET",
        help="only for this target, such as sm86-trt10.13.3 (default: all that have an earlier artifact)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only list what would change")
    _add_watch(parser, "read alarms for this time, such as 15m, and take the run back only if one fires")
    add_repository(parser)
    parser.set_defaults(run="triton_models.repository.rollback")


def promote(parser: argparse.ArgumentParser) -> None:
    """Copy tested artifacts to another repository and make them current."""
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("names", nargs="*", default=[], metavar="NAME", help="the models")
    chosen.add_argument("--all", action="store_true", help="promote every model")
    chosen.add_argument(
        "--only",
        type=Path,
        metavar="FILE",
        help="promote exactly the artifacts that were tested: FILE is of `fleet smoke --tested FILE`",
    )
    parser.add_argument(
        "--from",
        dest="source",
        required=True,
        metavar="URL",
        help="the repository in which they were tested, s3://bucket/prefix/",
    )
    parser.add_argument(
        "--to", required=True, metavar="URL", help="the repository that gets them, s3://bucket/prefix/"
    )
    add_portable(parser)
    parser.add_argument(
        "--target",
        metavar="TARGET",
        help="only the artifacts for this target, such as sm86-trt10.13.3 (default: for all)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only list what would be copied")
    _add_watch(parser, "afterwards, read alarms for this time, such as 15m: if one fires, all names go back")
    group = add_account(parser)
    group.add_argument(
        "--from-profile", metavar="NAME", help="the AWS profile for the source (default: --profile)"
    )
    group.add_argument(
        "--from-region", metavar="REGION", help="the AWS region of the source (default: --region)"
    )
    parser.set_defaults(run="triton_models.repository.promote")


def prune(parser: argparse.ArgumentParser) -> None:
    """Delete artifacts that are no longer used."""
    parser.add_argument(
        "--keep", type=int, required=True, metavar="N", help="keep the newest N artifacts of each model"
    )
    parser.add_argument(
        "--older-than",
        type=int,
        default=7,
        metavar="DAYS",
        help="delete only artifacts that have not been current for this long (default: %(default)s)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only list what would be deleted")
    parser.add_argument("--resume", action="store_true", help="finish an interrupted run")
    add_repository(parser)
    parser.set_defaults(run="triton_models.repository.prune")


def rehearse(parser: argparse.ArgumentParser) -> None:
    """Deploy, build, serve and verify on this machine."""
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "names",
        nargs="*",
        default=[],
        metavar="NAME",
        help=f"{NAME_HELP} (default: the models that the stack builds)",
    )
    chosen.add_argument("--all", action="store_true", help="rehearse every model under model_builds/models/")
    chosen.add_argument(
        "--scenario",
        metavar="FILE",
        help="play traffic and faults on small models: a YAML file, or an included scenario such as thrash",
    )
    parser.add_argument(
        "--stage", metavar="NAME", help="a stage in cdk.json (default: the first one, if there are stages)"
    )
    parser.add_argument(
        "--gpu-memory",
        metavar="SIZE",
        help="the memory for models of each GPU, such as 500MiB, to see models evicted (default: that of the "
        "deployed instance type)",
    )
    parser.add_argument(
        "--stay", action="store_true", help="keep everything running until Ctrl-C, and serve a page about it"
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write that page to FILE, an .html that needs no network"
    )
    parser.add_argument("--port", type=int, default=0, help="the embedded AWS's port (default: a free one)")
    parser.set_defaults(run="triton_rehearsal.rehearse.command", extra="rehearse")


def invoke(parser: argparse.ArgumentParser) -> None:
    """Ask a deployed model, and print its answer."""
    parser.add_argument("model", metavar="NAME", help="the model's name in the repository")
    values = parser.add_mutually_exclusive_group()
    values.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an input: JSON, a text, or @FILE: .npy, .json, or the bytes of another file; once for each",
    )
    values.add_argument(
        "--example",
        metavar="NAME",
        help="an example of its declaration (default, without --input: the first)",
    )
    parser.add_argument(
        "--output", action="append", default=[], metavar="NAME", help="only this output; once for each"
    )
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the outputs to this .npz file too")
    parser.add_argument(
        "--deadline",
        type=seconds,
        default=360.0,
        metavar="SECONDS",
        help="the time limit (default: %(default)g)",
    )
    _add_endpoint(parser)
    add_models(parser)
    add_repository(parser)
    parser.set_defaults(run="triton_models.client.invoke", extra="client")


def top(parser: argparse.ArgumentParser) -> None:
    """Show what each model does: requests, errors and times, as its clients report them."""
    _add_signals(parser)
    add_account(parser)
    parser.add_argument(
        "--for",
        dest="duration",
        type=duration,
        default=900.0,
        metavar="TIME",
        help="how far to look back (default: 15m)",
    )
    parser.add_argument(
        "--sort",
        choices=("requests", "failed", "p50", "p99", "waited", "time", "log"),
        default="requests",
        help="the column to sort by (default: %(default)s)",
    )
    parser.add_argument("--artifacts", action="store_true", help="count the artifacts of a model apart")
    parser.add_argument(
        "--most", type=count, default=20, metavar="N", help="the models to list (default: %(default)s)"
    )
    parser.add_argument(
        "--log",
        action="store_true",
        help="also count the requests in the endpoint's log, which has those of other SDKs as well",
    )
    parser.add_argument("--live", action="store_true", help="read again every 15 seconds, at a terminal")
    parser.set_defaults(run="triton_models.signals.top")


def costs(parser: argparse.ArgumentParser) -> None:
    """Divide the price of an endpoint's instances among its models, by the time of their requests."""
    _add_signals(parser)
    parser.add_argument("--month", type=month, metavar="YYYY-MM", help="a month (default: this one)")
    parser.add_argument("--bill", type=not_negative, metavar="USD", help="what the instances cost then")
    parser.add_argument(
        "--tenants", type=Path, metavar="FILE", help="a CSV file with the columns model and tenant: sum these"
    )
    parser.add_argument(
        "--gpu-seconds",
        action="store_true",
        help="divide by the seconds for which a request keeps a GPU busy, by the profiles in the repository",
    )
    add_repository(parser)
    parser.set_defaults(run="triton_models.plan.costs")


def why(parser: argparse.ArgumentParser) -> None:
    """Find out why a model does not load, or is slow."""
    parser.add_argument("model", metavar="NAME", help="the model's name in the repository")
    _add_endpoint(parser)
    parser.add_argument("--signals", metavar="URL", help="where clients write: see `fleet top`")
    parser.add_argument(
        "--for",
        dest="duration",
        type=duration,
        default=10_800.0,
        metavar="TIME",
        help="how far to look back (default: 3h)",
    )
    add_repository(parser)
    parser.set_defaults(run="triton_models.signals.why")


def _add_signals(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--signals", required=True, metavar="URL", help="where clients write, such as s3://bucket/signals/"
    )
    _add_place(parser)


def plan(parser: argparse.ArgumentParser) -> None:
    """Find the cheapest fleet for models and requests, before there is one."""
    parser.add_argument(
        "--models",
        metavar="NxSIZE|DIR",
        help="models of a size, such as 300x200MB, or a folder of Triton models or artifacts (default: those "
        "in --repository)",
    )
    parser.add_argument(
        "--backend",
        default="onnxruntime",
        metavar="NAME",
        help="the backend of models of a size: onnxruntime, pytorch or tensorrt (default: %(default)s)",
    )
    parser.add_argument(
        "--busy",
        type=duration,
        metavar="TIME",
        help="how long a request keeps a GPU busy (default: 7ms, and 3 to 20 as its range)",
    )
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument(
        "--requests", type=rates, metavar="RATE", help="requests per second, such as 50/s or 3000/min"
    )
    asked.add_argument(
        "--trace", type=Path, metavar="FILE", help="a CSV file with the columns seconds and model"
    )
    asked.add_argument(
        "--scenario",
        type=Path,
        metavar="FILE",
        help="the traffic of a scenario of `fleet rehearse`, such as tenants that come and go",
    )
    asked.add_argument(
        "--counts",
        type=Path,
        metavar="FILE",
        help="a CSV file with the requests of each model, a row, in each minute, a column",
    )
    asked.add_argument(
        "--from-logs", metavar="ENDPOINT", help="the requests that an endpoint answered, by its log"
    )
    parser.add_argument(
        "--days", type=seconds, default=7.0, metavar="N", help="the days of its log (default: %(default)g)"
    )
    parser.add_argument(
        "--popularity",
        type=popularity,
        default=1.0,
        metavar="Z",
        help="the exponent of Zipf's law over the models, such as zipf:1.1 (default: %(default)g)",
    )
    parser.add_argument(
        "--for",
        dest="duration",
        type=duration,
        metavar="TIME",
        help="the length of --requests (default: that of 2 million, but an hour to a day)",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the seed (default: %(default)s)")
    parser.add_argument(
        "--waiting",
        type=share,
        default=0.01,
        metavar="SHARE",
        help="the largest share of requests that may wait for a load (default: 1%%)",
    )
    parser.add_argument("--p99", type=duration, metavar="TIME", help="the largest 99th percentile")
    parser.add_argument(
        "--pin", type=count_or_share, default=0, metavar="N|SHARE", help="keep the most popular models loaded"
    )
    parser.add_argument(
        "--types",
        nargs="+",
        metavar="TYPE",
        help="the instance types (default: those that AWS documents for multi-model endpoints on GPUs)",
    )
    parser.add_argument("--price", type=not_negative, metavar="USD", help="the price of the type per hour")
    parser.add_argument(
        "--compare", metavar="ENDPOINT", help="say what the plan saves, compared with what this endpoint has"
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write a page about the plan to FILE, an .html"
    )
    parser.add_argument(
        "--write",
        nargs="?",
        type=Path,
        const=Path("cdk.json"),
        metavar="FILE",
        help="write the settings of the cheapest fleet into a cdk.json",
    )
    add_repository(parser)
    parser.set_defaults(run="triton_models.plan.command", extra="plan")


def load(parser: argparse.ArgumentParser) -> None:
    """Send requests at planned moments to an endpoint or a Triton server, and measure the answers."""
    parser.add_argument(
        "names", nargs="*", default=[], metavar="NAME", help="the models (default: all that are published)"
    )
    parser.add_argument(
        "--rate",
        type=rates,
        metavar="RATE",
        help="requests per second, such as 50/s or 3000/min; or steps, such as 10/s,20/s,40/s",
    )
    parser.add_argument(
        "--for",
        dest="duration",
        type=duration,
        metavar="TIME",
        help="how long, such as 5m; of each step, if there are several",
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help="send this trace instead: a CSV file with the columns seconds and model, as --output writes it",
    )
    instead.add_argument(
        "--scenario",
        type=Path,
        metavar="FILE",
        help="send the traffic of this scenario of `fleet rehearse` instead; its model N is the Nth model",
    )
    parser.add_argument(
        "--burstiness",
        type=not_negative,
        default=1.0,
        metavar="CV",
        help="the variation of the gaps between requests: 0 is even, 1 a Poisson process, more are bursts "
        "(default: %(default)g)",
    )
    parser.add_argument(
        "--popularity",
        type=popularity,
        default=0.0,
        metavar="Z",
        help="the exponent of Zipf's law over the models: 0 asks all equally often (default: %(default)g)",
    )
    parser.add_argument(
        "--present",
        type=times,
        metavar="HERE/AWAY",
        help="models come and go: the mean times for which one is asked and is not, such as 10m/1h",
    )
    knee = parser.add_argument_group("the largest rate")
    knee.add_argument(
        "--find-knee",
        action="store_true",
        help="raise the rate from --rate until it is too much, --for each, and print the scaling target",
    )
    knee.add_argument(
        "--p99", type=duration, metavar="TIME", help="a rate whose 99th percentile is above is too much"
    )
    knee.add_argument(
        "--gpus",
        type=count,
        metavar="N",
        help="the number of GPUs (default: those of the endpoint's instances)",
    )
    knee.add_argument(
        "--growth",
        type=not_negative,
        default=20.0,
        metavar="PERCENT",
        help="how fast load grows, a minute, while an instance starts (default: %(default)g)",
    )
    knee.add_argument(
        "--start",
        type=duration,
        default=720.0,
        metavar="TIME",
        help="how long an instance takes to start (default: 12m)",
    )
    knee.add_argument("--scaling", action="store_true", help="search although the endpoint scales meanwhile")
    paid = parser.add_argument_group("in an account")
    paid.add_argument(
        "--budget", type=seconds, metavar="USD", help="end when the endpoint's instances have cost this much"
    )
    paid.add_argument("--yes", action="store_true", help="do not ask whether to send the requests")
    parser.add_argument("--seed", type=int, metavar="N", help="the seed of the schedule (default: a new one)")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an input, as for `fleet invoke` (default: the request that the build has stored, or zeros)",
    )
    parser.add_argument(
        "--deadline",
        type=seconds,
        default=70.0,
        metavar="SECONDS",
        help="the time after which a request has failed (default: %(default)g)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="write the schedule, all requests and the figures here",
    )
    _add_endpoint(parser).add_argument(
        "--triton", metavar="URL", help="a Triton server instead, such as http://localhost:8000"
    )
    add_repository(parser)
    parser.set_defaults(run="triton_models.load.command", extra="client")


def _add_place(parser: argparse.ArgumentParser, *, required: bool = True) -> argparse._MutuallyExclusiveGroup:
    """Add `--alias` or `--endpoint`; return their group."""
    where = parser.add_mutually_exclusive_group(required=required)
    where.add_argument(
        "--alias",
        metavar="NAME",
        help="the fleet's alias, such as /triton-fleet/TritonFleet/endpoint: the output EndpointAlias",
    )
    where.add_argument("--endpoint", metavar="NAME", help="an endpoint instead of an alias")
    return where


def _add_endpoint(parser: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    """Add `--alias`, or `--endpoint` and `--target`; return the group of what may be called."""
    where = _add_place(parser)
    parser.add_argument(
        "--target",
        metavar="TARGET",
        help="the target of --endpoint, such as sm86-trt10.13.3, if models need it",
    )
    return where


def smoke(parser: argparse.ArgumentParser) -> None:
    """Send every declared example to a deployed fleet and compare the answers."""
    parser.add_argument(
        "names", nargs="*", default=[], metavar="NAME", help=f"{NAME_HELP} (default: all that are published)"
    )
    parser.add_argument(
        "--alias",
        required=True,
        metavar="NAME",
        help="the fleet's alias, such as /triton-fleet/TritonFleet/endpoint: the output EndpointAlias",
    )
    parser.add_argument(
        "--tested",
        type=Path,
        metavar="FILE",
        help="write the names and digests of the artifacts that answered, for `fleet promote --only FILE`",
    )
    add_models(parser)
    add_repository(parser)
    parser.set_defaults(run="triton_rehearsal.rehearse.smoke", extra="rehearse")


def report(parser: argparse.ArgumentParser) -> None:
    """Describe what a change does to the deployed fleet."""
    parser.add_argument(
        "--base", required=True, metavar="REF", help="the commit to compare with, such as origin/main"
    )
    parser.add_argument(
        "--install-base",
        action="store_true",
        help="synthesize the base with the version of triton-fleet that it requires, which is installed",
    )
    parser.add_argument("--head", metavar="REF", help="the commit to report on (default: the working tree)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the report to this file")
    add_repository(parser)
    parser.set_defaults(run="triton_report.command", extra="rehearse")


def check_endpoint(parser: argparse.ArgumentParser) -> None:
    """Find models that an endpoint could not load."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these models")
    parser.add_argument(
        "--endpoint", metavar="NAME", help="a deployed endpoint; its instance type and release are looked up"
    )
    add_instance_type(parser)
    parser.add_argument("--release", help="the endpoint's Triton release, such as 25.09")
    add_repository(parser)
    parser.set_defaults(run="triton_models.repository.check_endpoint")


def check_quotas(parser: argparse.ArgumentParser) -> None:
    """Find service quotas that are too low for a fleet."""
    from triton_models.facts.quotas import DEFAULT_MAX_CAPACITY, MACHINES

    add_instance_type(parser, required=True)
    add_count(
        parser,
        "--max-capacity",
        "the maximum number of instances of the endpoint, as in cdk.json",
        default=DEFAULT_MAX_CAPACITY,
    )
    add_count(
        parser, "--parallel-builds", "the maximum number of concurrent builds, as in cdk.json", default=1
    )
    parser.add_argument(
        "--machine",
        choices=MACHINES,
        default=MACHINES[0],
        help="the machine that builds run on (default: the build job's choice for the GPU and the region)",
    )
    parser.add_argument(
        "--build-instance-type",
        metavar="TYPE",
        help="the instance type of Processing jobs, if it is not the endpoint's",
    )
    parser.add_argument(
        "--fleet",
        metavar="NAME",
        help="a deployed fleet, as in cdk.json: its own endpoints do not count as used by others",
    )
    add_account(parser)
    parser.set_defaults(run="triton_models.facts.quotas")
