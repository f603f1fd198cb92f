"""`fleet probe account`: run probes, resume an interrupted run, or clean up."""

from __future__ import annotations

import argparse
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from triton_models.base.errors import FleetError
from triton_models.base.outcome import progress
from triton_models.facts.instances import instance_type
from triton_models.facts.releases import release
from triton_models.probe.account import plan, trouble
from triton_models.probe.account.cleaning import Cleaned, clean
from triton_models.probe.account.journal import PREFIX, Journal, journals, state_folder
from triton_models.probe.account.probe import AccountProbe
from triton_models.probe.account.probes import PROBES
from triton_models.probe.account.runner import Runner, remove_all
from triton_models.probe.account.work import Clients, Clock, Place, Work
from triton_models.probe.result import Probed
from triton_models.probe.transcript import Transcript

_THREADS = 4


def run(
    arguments: argparse.Namespace,
    *,
    session: Any = None,
    clock: Clock | None = None,
    ask: Callable[[], str] | None = None,
) -> Probed | Cleaned:
    """Run `fleet probe account [--region R] [--only ID...] [--all] [--yes] [--resume] [--clean]`.

    Args:
        arguments: The command line's arguments.
        session: The boto3 session; None for one with the --profile and --region given.
        clock: The time and the pace of the probes.
        ask: Reads the answer to a question; None for the terminal.
    """
    clock = clock or Clock()
    with trouble.as_one_error(arguments.region):
        probes = plan.wanted(arguments.only, everything=arguments.all)
        wanted, instance = release(arguments.release), instance_type(arguments.instance_type)
        session = session or _session()
        region = _region(session)
        identity = session.client("sts").get_caller_identity()
        account, partition = identity["Account"], identity["Arn"].split(":")[1]
        place = Place(account=account, partition=partition, region=region, release=wanted, instance=instance)
        folder = state_folder()
        if arguments.clean:
            return clean(session, folder, clock, account=account, region=region, yes=arguments.yes, ask=ask)
        journal = _interrupted(folder, place) if arguments.resume else None
        if journal is not None:
            place, probes = _place_of(journal), _probes_of(journal)
        else:
            journal = Journal.begin(folder, place=place.as_dict(), probes=[each.id for each in probes])
        clients = Clients(session, place.region)
        course = _Course(
            place=place,
            probes=probes,
            journal=journal,
            clients=clients,
            clock=clock,
            output=arguments.transcript,
        )
        return course.run(yes=arguments.yes, ask=ask)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Course:
    """A run: asks for confirmation, runs the probes, removes everything, and writes the transcript."""

    place: Place
    probes: tuple[AccountProbe, ...]
    journal: Journal
    clients: Clients
    clock: Clock
    output: Path | None

    def run(self, *, yes: bool, ask: Callable[[], str] | None) -> Probed:
        said = list(plan.lines(self.probes, self.place, run=self.journal.run))
        try:
            plan.agree(said, "Continue?", yes=yes, read=ask)
        except BaseException:
            _end(self.journal)
            raise
        with ThreadPoolExecutor(_THREADS) as background, _interruptible():
            try:
                self._probe(background)
                probed = self._probed()
                self.journal.delete()
            finally:
                self.journal.unlock()
        return probed

    def _probe(self, background: ThreadPoolExecutor) -> None:
        work = Work(
            place=self.place,
            clients=self.clients,
            journal=self.journal,
            background=background,
            clock=self.clock,
        )
        try:
            Runner(work=work, probes=self.probes).run()
        finally:
            progress("removing what was created")
            left = remove_all(self.journal, self.clients, self.clock)
        if left:
            raise _not_removed(left)

    def _probed(self) -> Probed:
        today = datetime.now(tz=timezone.utc).date().isoformat()
        seen = self.journal.observations
        transcript = Transcript(
            kind="account",
            date=today,
            release=self.place.release.name,
            place=self.place.region,
            tool=_version(),
            verdicts=tuple(each for probe in self.probes for each in self.journal.verdicts[probe.id]),
            observations=tuple(each for probe in self.probes for each in seen.get(probe.id, ())),
        )
        release, region = self.place.release.name, self.place.region
        path = self.output or Path(f"probe-account-{region}-{release}.json")
        names = {f"{PREFIX}{self.journal.run}": "<run>"}
        transcript.write(path, names)
        facts = {"region": region, "release": release, "instance type": self.place.instance.name}
        return Probed(transcript=transcript, path=path, facts=facts, names=names)


def _end(journal: Journal) -> None:
    """Delete the journal of a run that created nothing; keep that of a run to resume."""
    if journal.entries or journal.verdicts:
        journal.unlock()
    else:
        journal.delete()


def _version() -> str:
    try:
        return metadata.version("triton-fleet")
    except metadata.PackageNotFoundError:
        return "from source"


def _session() -> Any:
    import boto3.session

    return boto3.session.Session()


def _region(session: Any) -> str:
    """Return the session's region.

    Raises:
        FleetError: The region is missing, or has no SageMaker.
    """
    known = {
        region
        for partition in session.get_available_partitions()
        for region in session.get_available_regions("sagemaker", partition_name=partition)
    }
    region: str | None = session.region_name
    if region is not None and region in known:
        return region
    raise FleetError.of(
        what=f"there is no region {region!r}" if region else "no region is given",
        where="--region",
        expected="a region that has SageMaker, such as us-east-1",
        fix="--region us-east-1",
        rule="probe-region",
    )


def _interrupted(folder: Path, place: Place) -> Journal:
    """Return the latest interrupted run of this account and region.

    Raises:
        FleetError: There is no such run.
    """
    for journal in reversed(list(journals(folder))):
        same = (journal.place["account"], journal.place["region"]) == (place.account, place.region)
        if same and journal.lock():
            return journal
    raise FleetError.of(
        what=f"there is no run to resume in {place.region}",
        where=str(folder),
        expected="the journal of an interrupted run of this account and region",
        fix="start a run without --resume",
        rule="probe-journal",
    )


def _place_of(journal: Journal) -> Place:
    kept = journal.place
    return Place(
        account=kept["account"],
        partition=kept["partition"],
        region=kept["region"],
        release=release(kept["release"]),
        instance=instance_type(kept["instance"]),
    )


def _probes_of(journal: Journal) -> tuple[AccountProbe, ...]:
    return tuple(probe for probe in PROBES if probe.id in journal.probes)


def _not_removed(left: dict[str, str]) -> FleetError:
    listed = "; ".join(f"{name}: {why}" for name, why in left.items())
    return FleetError.of(
        what=f"{len(left)} resources could not be removed: {listed}",
        where="the account",
        expected="permission to delete the run's resources",
        why="an endpoint is billed until it is deleted",
        fix="fleet probe account --clean, with a role that may delete them",
        rule="probe-left",
    )


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Make SIGTERM and SIGHUP end the run as Ctrl-C does, with everything removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    former = {each: signal.signal(each, interrupt) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)
