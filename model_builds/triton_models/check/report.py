"""The report of `fleet check`, and its rules."""

from __future__ import annotations

from dataclasses import dataclass

from triton_models.base.checks import Check, Report
from triton_models.check.subject import Model, Subject

REFUSED = "Triton refuses the model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Check):
    """A check of an artifact; `endpoints` are the kinds that it applies to, or empty for every server."""

    endpoints: tuple[str, ...] = ()


def rule(name: str, source: str, *, endpoints: tuple[str, ...] = ()) -> Rule:
    """Return the rule with this id."""
    return Rule(id=name, source=source, endpoints=endpoints)


class Findings(Report):
    """The report of an artifact, or of a place in it.

    Example:
        >>> report = Findings(subject).of(model)
        >>> report(MAX_BATCH_SIZE, "max_batch_size: -1", at="max_batch_size", fix="write 0 or more")
    """

    def __init__(self, subject: Subject, where: str = "") -> None:
        """Start without a problem; the place is the artifact if no other is given."""
        super().__init__(where or subject.layout.where)
        self.subject = subject

    def __call__(self, check: Check, what: str, *, fix: str, why: str = REFUSED, at: str = "") -> None:
        """Add a problem, unless the rule does not apply to the target; `at` is the part of the place."""
        endpoints = check.endpoints if isinstance(check, Rule) else ()
        if not endpoints or self.subject.target.endpoint in endpoints:
            where = f"{self.where}: {at}" if at else self.where
            self.add([check.problem(what=what, where=where, fix=fix, why=why)])

    def of(self, model: Model) -> Findings:
        """Return the report of a model's configuration. It adds to this one."""
        return self.file(model.config_path)

    def file(self, path: str) -> Findings:
        """Return the report of a file or folder in the artifact. It adds to this one."""
        report = Findings(self.subject, self.subject.layout.place(path))
        report._found = self._found
        return report
