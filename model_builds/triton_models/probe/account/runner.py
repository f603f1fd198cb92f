"""Runs probes concurrently in one thread, and always removes what they created."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from triton_models.base.outcome import progress
from triton_models.probe.account import trouble
from triton_models.probe.account.journal import Entry, Journal
from triton_models.probe.account.probe import AccountProbe, Steps
from triton_models.probe.account.resources import KINDS, USERS
from triton_models.probe.account.work import Clients, Clock, Work
from triton_models.probe.verdict import Outcome, UndecidedError, Verdict, undecided

PATIENCE = 3.0
"""The maximum duration of a probe, as a multiple of its usual duration."""

REMOVAL_MINUTES = 45.0
"""The maximum wait until a resource is removable: a starting endpoint takes half an hour to fail."""


@dataclass(slots=True, kw_only=True)
class _Course:
    """A probe in progress."""

    probe: AccountProbe
    work: Work
    steps: Steps
    began: float


@dataclass(slots=True, kw_only=True)
class Runner:
    """Runs probes.

    Args:
        work: The run.
        probes: The probes, in the order of the transcript.
    """

    work: Work
    probes: Sequence[AccountProbe]
    _courses: dict[str, _Course] = field(default_factory=dict)

    def run(self) -> None:
        """Run every probe without a verdict, and remove what it created when it ends.

        Raises:
            botocore.exceptions.ClientError: The credentials are invalid or have expired.
        """
        while waiting := [each for each in self.probes if each.id not in self.work.journal.verdicts]:
            before = len(self.work.journal.verdicts)
            for probe in waiting:
                if all(self._ended(each) for each in (*probe.needs, *probe.after)):
                    self._step(probe)
            if len(self.work.journal.verdicts) == before:
                self.work.clock.pause()

    def _ended(self, probe: str) -> bool:
        return probe in self.work.journal.verdicts or all(each.id != probe for each in self.probes)

    def _step(self, probe: AccountProbe) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        course = self._courses.get(probe.id)
        if course is None:
            progress(f"{probe.id}: {probe.what}")
            own = self.work.of(probe.id)
            course = _Course(probe=probe, work=own, steps=probe.run(own), began=self.work.clock.now())
            self._courses[probe.id] = course
        try:
            next(course.steps)
            self._check_time(course)
        except StopIteration as ended:
            self._end(course, ended.value)
        except UndecidedError as error:
            self._end(course, _all_undecided(probe, str(error)))
        except ClientError as error:
            if trouble.signed_out(error):
                raise
            self._end(course, _all_undecided(probe, trouble.reason(error)))
        except BotoCoreError as error:
            self._end(course, _all_undecided(probe, f"AWS cannot be reached: {error}"))
        except Exception as error:  # noqa: BLE001 -- an unexpected answer must not end the others
            self._end(course, _all_undecided(probe, f"the probe failed: {type(error).__name__}: {error}"))

    def _check_time(self, course: _Course) -> None:
        limit = course.probe.minutes * PATIENCE
        if self.work.clock.now() - course.began > limit * 60:
            course.steps.close()
            msg = f"it took longer than {limit:g} minutes"
            raise UndecidedError(msg)

    def _end(self, course: _Course, verdicts: Sequence[Verdict]) -> None:
        probe, seconds = course.probe, self.work.clock.now() - course.began
        found = {each.belief: replace(each, seconds=seconds) for each in verdicts}
        for belief in probe.decides:
            found.setdefault(belief, undecided(belief, "the probe ended without a verdict"))
        own = [each for each in self.work.journal.entries if each.owner == probe.id]
        remove_once(own, self.work.journal, self.work.clients)
        self.work.journal.found_out(probe.id, tuple(found.values()), course.work.observations)
        for verdict in found.values():
            mark = ": " + verdict.evidence if verdict.outcome is Outcome.UNDECIDED else ""
            progress(f"{probe.id}: {verdict.belief} {verdict.outcome.value}{mark}")


def _all_undecided(probe: AccountProbe, reason: str) -> tuple[Verdict, ...]:
    return tuple(undecided(belief, reason) for belief in probe.decides)


def remove_once(entries: Iterable[Entry], journal: Journal, clients: Clients) -> dict[str, str]:
    """Remove what can be removed now: first the billed resources that use others, then the others.

    Returns:
        The reason why a resource could not be removed, by its name; empty if it only takes more time.
    """
    given = list(entries)
    left = _remove([each for each in given if each.kind in USERS], journal, clients)
    if not any(why == "" for why in left.values()):
        left |= _remove([each for each in given if each.kind not in USERS], journal, clients)
    return left


def _remove(entries: Sequence[Entry], journal: Journal, clients: Clients) -> dict[str, str]:
    from botocore.exceptions import BotoCoreError, ClientError

    left: dict[str, str] = {}
    for entry in sorted(entries, key=lambda each: tuple(KINDS).index(each.kind)):
        try:
            if KINDS[entry.kind].remove(clients, entry.name, entry.detail):
                journal.forget(entry)
            else:
                left[entry.name] = ""
        except ClientError as error:
            left[entry.name] = trouble.reason(error)
        except BotoCoreError as error:
            left[entry.name] = str(error)
    return left


def remove_all(
    journal: Journal, clients: Clients, clock: Clock, *, say: Callable[[str], None] = progress
) -> dict[str, str]:
    """Remove everything that a run created, and wait for what cannot be removed yet.

    Returns:
        The reason why a resource could not be removed, by kind and name; empty if nothing is left.
    """
    end = clock.now() + REMOVAL_MINUTES * 60
    said: set[str] = set()
    while True:
        left = remove_once(journal.entries, journal, clients)
        waiting = [name for name, why in left.items() if not why]
        if not waiting or clock.now() > end:
            return {name: why or "it could not be removed yet" for name, why in left.items()}
        for name in waiting:
            if name not in said:
                said.add(name)
                say(f"waiting until {name} can be removed; another Ctrl-C leaves it to --clean")
        clock.pause()
