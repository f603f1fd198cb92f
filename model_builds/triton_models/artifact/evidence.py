"""What a build and a verification show about a model: it answers as its source does, or it only loads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from triton_models.artifact.compared import Compared, Range, compared_models
from triton_models.facts.tensorrt import FilePrecision

Status: TypeAlias = Literal["equal", "loads", "unknown"]

PRECISION = "precision"
"""The key of build.json with the precision of files that no declaration describes, if it is not FP32."""

_PRECISIONS: frozenset[str] = frozenset(get_args(FilePrecision))
_FEW = 2  # models that are named


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known about the answers of an artifact, and in which precision it computes.

    Attributes:
        model: The model that applications call; the others of the artifact are its parts.
        loaded: False if no server has loaded it, or if nothing is recorded about that.
        examples: The examples of the declaration's author on which it answered as its source does.
        answered: Those that it answered without a source to compare with.
        generated: The examples that a tool made up, and that it answered.
        generated_equal: True if these answers are the source's.
        compared: What the build compared, by model.
    """

    model: str
    precision: str
    loaded: bool = True
    examples: int = 0
    answered: int = 0
    generated: int = 0
    generated_equal: bool = False
    compared: Mapping[str, Compared] = field(default_factory=dict)

    @property
    def drawn(self) -> int:
        """The rows that the build drew, and on which the model as a whole answered as its source does."""
        return self.compared[self.model].drawn if self.model in self.compared else 0

    @property
    def unproven(self) -> str:
        """The features of a forest that splits in FP64, for which neither examples nor drawn rows suffice."""
        return self.compared[self.model].unproven if self.model in self.compared else ""

    @property
    def ranges(self) -> Mapping[str, Range]:
        """The inputs whose range the declaration narrows."""
        return {name: span for part in self.compared.values() for name, span in part.ranges.items()}

    @property
    def status(self) -> Status:
        """Equal if examples of its author or drawn rows were compared; generated examples are not enough."""
        if self.examples or self.drawn:
            return "equal"
        return "loads" if self.loaded else "unknown"

    def words(self) -> str:
        """Return the evidence as a phrase, such as "equal on 3 of your examples and 512 drawn rows"."""
        whole = [f"{self.examples} of your examples"] if self.examples else []
        spans = "".join(f", {range_words(name, span)}" for name, span in sorted(self.ranges.items()))
        if self.drawn:
            whole.append(_counted(self.drawn, "drawn row") + spans)
        rest = [*self._parts("" if self.drawn else spans), *self._answered()]
        if self.unproven:
            rest.append(f"not compared, as it splits {self.unproven} in FP64 and reads FP32{spans}")
        if whole:
            return "; ".join([f"equal on {' and '.join(whole)}", *rest])
        if self.loaded:
            return "; ".join(["loads", *(rest or ["nothing was compared"])])
        return "; ".join(rest or ["unknown", "no verification is recorded"])

    def _parts(self, spans: str) -> Iterator[str]:
        """Say what was compared of the models that this one calls."""
        drawn = {
            name: part.drawn for name, part in self.compared.items() if name != self.model and part.drawn
        }
        if drawn:
            names = " and ".join(drawn) if len(drawn) <= _FEW else f"{len(drawn)} of its models"
            verb, per_model = ("are", " each") if len(drawn) > 1 else ("is", "")
            rows = _counted(min(drawn.values()), "drawn row")
            yield f"{names} {verb} equal on {rows}{per_model}{spans}"

    def _answered(self) -> Iterator[str]:
        """Say what was answered, which proves less than what was compared."""
        if self.generated:
            count = _counted(self.generated, "generated example")
            yield f"answered {count}{' as its source does' if self.generated_equal else ''}"
        if self.answered:
            yield f"answered {self.answered} of your examples{'' if self.unproven else ', not compared'}"

    def as_dict(self) -> dict[str, Any]:
        """Return the evidence as JSON-ready data."""
        return {
            "status": self.status,
            "precision": self.precision,
            "answers": self.words(),
            "compared_examples": self.examples,
            "generated_examples": self.generated,
            "compared": {name: part.as_dict() for name, part in self.compared.items()},
        }


def evidence_of(build: Mapping[str, Any], *, examples: int | None = None) -> Evidence:
    """Return what the build.json of an artifact shows; `examples` is what a verification has compared.

    The record may come from outside, such as from a manifest: what is not as a build writes it is left out.
    """
    compared = _compared(build)
    model = build.get("model", "")
    own = compared.get(model) if _are_texts([model]) else None
    count = max(examples or 0, own.examples if own else 0)
    return Evidence(
        model=model if _are_texts([model]) else "",
        precision=precision_of(build),
        loaded=examples is not None,
        examples=0 if own and own.unproven else count,
        compared=compared,
    )


def precision_of(build: Mapping[str, Any]) -> str:
    """Return the precisions of an artifact by its build.json, such as "fp16", or "fp16+fp32" for several.

    It is "unknown" for an artifact that `fleet build` did not write.
    """
    plans = build.get("plans")
    planned = {str(path).partition("/")[0] for path in plans} if isinstance(plans, Mapping) else set()
    listed = build.get("precisions")
    known = set(listed) & _PRECISIONS if isinstance(listed, list) and _are_texts(listed) else set()
    if isinstance(by_files := build.get(PRECISION), str):
        known = set(by_files.split("+")) & _PRECISIONS or known
    files = {part.precision for name, part in _compared(build).items() if name not in planned}
    if "tf32" in known:
        files.discard("fp32")  # the build computes on a CPU, which has no TF32
    return "+".join(sorted(known | files)) or ("fp32" if build.get("model") else "unknown")


def range_words(name: str, span: Range) -> str:
    """Return a narrowed range, such as "x between 0 and 255 (pixels)"."""
    empty = ", never empty" if span.never_empty else ""
    return f"{name} between {span.low:g} and {span.high:g}{empty} ({span.why})"


def _compared(build: Mapping[str, Any]) -> Mapping[str, Compared]:
    try:
        models = compared_models(build)
        return models if all(map(_is_sound, models.values())) and _are_texts(models) else {}
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return {}


def _is_sound(compared: Compared) -> bool:
    spans = compared.ranges.values()
    return (
        all(type(count) is int and count >= 0 for count in (compared.examples, compared.drawn))
        and all(isinstance(bound, int | float) for span in spans for bound in (span.low, span.high))
        and _are_texts([compared.limits, compared.unproven, *compared.ranges, *(span.why for span in spans)])
        and compared.precision in _PRECISIONS
    )


def _are_texts(values: Collection[Any]) -> bool:
    return all(isinstance(value, str) and value.isprintable() for value in values)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
