"""A belief: a fact that was read or assumed, but not observed here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Grade(str, Enum):
    """The strength of a belief's evidence, strongest first."""

    OBSERVED = "observed"
    PUBLIC_RECORD = "public record"
    AWS_DOCUMENTATION = "AWS documentation"
    DOCUMENTATION = "documentation"
    SOURCE_READ = "source read"
    ASSUMPTION = "assumption"


class DecidedBy(str, Enum):
    """The means of deciding a belief."""

    GPU = "gpu"
    ACCOUNT = "account"
    HUB = "hub"
    REHEARSAL = "rehearsal"
    BY_HAND = "by hand"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An observation of a real host, endpoint or server that someone published.

    Attributes:
        repository: The repository on GitHub, as owner/name.
        at: An issue or pull request, such as "#123"; otherwise the first ten digits of a commit or blob, then
            the file and its cells, if any. A blob is found in the history of notebooks too, where outputs are
            often gone from the newest version.
        seen: The figure or the words on record.
    """

    repository: str
    at: str
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """A fact about AWS, Triton, TensorRT or an image that this project depends on.

    Attributes:
        id: A stable name in kebab-case.
        belief: The fact, in one sentence without a full stop at the end.
        grade: The strength of the evidence. In the documentation, a transcript of a probe raises it.
        source: The origin of the fact, or the reason for assuming it. May be empty if there are records.
        records: Those that support it; a public record needs at least one.
        depends: The dependents: ids of rules, names of classes, or dotted names of modules, of names in
            modules, or of tests.
        decided_by: The means of deciding it.
        command: The steps to decide it by hand. May be empty if a probe of `fleet probe` decides it.
        if_false: The change to make if it is false.
        no_probe: The reason for not having a probe, if a GPU or an account could decide it.
    """

    id: str
    belief: str
    grade: Grade
    source: str = ""
    records: tuple[Record, ...] = ()
    depends: tuple[str, ...]
    decided_by: DecidedBy
    if_false: str
    command: str = ""
    no_probe: str = ""
