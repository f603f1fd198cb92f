"""A belief: something that was read or assumed, and not observed here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Grade(str, Enum):
    """The strength of a belief's evidence, the strongest first."""

    OBSERVED = "observed"
    AWS_DOCUMENTATION = "AWS documentation"
    PUBLIC_RECORD = "public record"
    SOURCE_READ = "source read"
    ASSUMPTION = "assumption"


class DecidedBy(str, Enum):
    """The place where a belief is decided."""

    GPU = "gpu"
    ACCOUNT = "account"
    HUB = "hub"
    REHEARSAL = "rehearsal"
    BY_HAND = "by hand"


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """A fact about AWS, Triton, TensorRT or an image that something here rests on.

    Attributes:
        id: Its name, in kebab-case; it never changes.
        belief: What is believed, in one sentence without a full stop at its end.
        grade: How well it is founded. A transcript of a probe raises it in the documentation.
        source: Where it was read, or why it is assumed.
        depends: What rests on it: ids of rules, names of classes, or dotted names of modules, of names in
            them, or of tests.
        decided_by: Where it is decided.
        command: How to decide it by hand. May be empty where a probe of `fleet probe` decides it.
        if_false: What to do if it is false.
        no_probe: Why no probe decides it, where a GPU or an account could.
    """

    id: str
    belief: str
    grade: Grade
    source: str
    depends: tuple[str, ...]
    decided_by: DecidedBy
    if_false: str
    command: str = ""
    no_probe: str = ""
