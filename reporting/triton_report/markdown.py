"""The report as Markdown: the headline, then what a reviewer must look at, then the details."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from triton_models.declare.reading import published_name
from triton_models.facts.cost import Estimate, dollars
from triton_report.assembly import Assembly, Resource
from triton_report.changes import Change, Effect, PropertyChange
from triton_report.comparison import Comparison, targets
from triton_report.declared import ModelChange
from triton_report.intrinsics import written
from triton_report.permissions import Grant
from triton_report.risk import WORDS, Meaning, Risk, meaning
from triton_report.settings import model_summary
from triton_report.spending import fleets

_LONGEST_VALUE = 80
# The name of an uploaded file, which is shortened.
_HASH = re.compile(r"\b([0-9a-f]{9})[0-9a-f]{55}\b")
_BEFORE = 20
_MOST_ROWS = 40
_SERVES = "AWS::SageMaker::"
_MOST_SETTINGS = 6
_MOST_PATHS = 4
# Rows of ordinary permissions before they share one.
_MOST_PERMISSIONS = 3

# What happens to one, and to several.
_VERBS = {
    Effect.ADDED: ("is added", "are added"),
    Effect.CHANGED: ("changes in place", "change in place"),
    Effect.RENAMED: (
        "gets another id: a new one is created, and the old one is deleted",
        "get other ids: new ones are created, and the old ones are deleted",
    ),
    Effect.REPLACED: ("is replaced", "are replaced"),
    Effect.REMOVED: ("is removed", "are removed"),
}


def markdown(comparison: Comparison) -> str:
    """Return the report, which ends with a newline."""
    parts = [
        f"### {headline(comparison)}",
        *_summary(comparison),
        *_table(comparison),
        *_models(comparison),
        *_cost(comparison),
        *_watching(comparison),
        *_warnings(comparison),
        *_details(comparison),
        f"<sub>`fleet report`: {comparison.before.name} → {comparison.after.name}</sub>",
    ]
    return "\n\n".join(parts) + "\n"


def headline(comparison: Comparison) -> str:
    """Return what was changed, in a line; if that is no setting and no model, what results from it."""
    chosen = [*map(str, comparison.settings[:_MOST_SETTINGS])]
    if (more := len(comparison.settings) - _MOST_SETTINGS) > 0:
        chosen.append(f"{more} more settings")
    said = ", ".join(each for each in (*chosen, model_summary(comparison.models)) if each)
    return f"{said[0].upper()}{said[1:]}" if said else _consequence(comparison)


def _summary(comparison: Comparison) -> Iterator[str]:
    """Return the consequences, below a headline of the causes, and the difference in cost."""
    lines = []
    if comparison.settings or comparison.models:
        lines.append(_consequence(comparison))
    if difference := _difference(comparison):
        lines.append(f"Cost: {difference}")
    if comparison.one_library:
        lines.append(
            "Not shown: the changes of triton-fleet, because both were synthesized with the new version."
            " `--install-base` synthesizes the base with its own."
        )
    if lines:
        yield "\n".join(f"* {line}" for line in lines)


def _consequence(comparison: Comparison) -> str:
    risks = [meaning(change).risk for change in comparison.changes]
    said = [
        _counted(len(comparison.moves_without), "deployment that stops", "deployments that stop"),
        _counted(len(comparison.stacks_left), "orphaned stack", "orphaned stacks"),
        _counted(risks.count(Risk.DOWNTIME), "risk of downtime", "risks of downtime"),
        _counted(risks.count(Risk.DATA), "risk to data", "risks to data"),
        _counted(risks.count(Risk.REPLACEMENT), "resource replaced", "resources replaced"),
        _counted(len(comparison.permissions.widened), "wider permission", "wider permissions"),
        _counted(len(comparison.watching.alarms_lost), "alarm removed", "alarms removed"),
    ]
    if parts := [each for each in said if each]:
        return ", ".join(parts)
    changed = _counted(len(comparison.changes), "resource changes", "resources change")
    return f"{changed}, without risk" if changed else "Nothing changes in the deployment"


def _difference(comparison: Comparison) -> str:
    least, most = (round(amount) for amount in comparison.cost_difference)
    if not least and not most:
        return ""
    if not least:
        return f"up to {most:+,} USD per month"
    return f"{least:+,} USD per month" if least == most else f"{least:+,} to {most:+,} USD per month"


def _table(comparison: Comparison) -> Iterator[str]:
    """Return the rows of the table, the riskiest first; resources of one type and fate share a row.

    What serves comes before what watches it.
    """
    fates: dict[tuple[Meaning, str, Effect], list[Change]] = {}
    for change in comparison.changes:
        fates.setdefault((meaning(change), change.resource.type, change.effect), []).append(change)
    lines = [
        f"| {risk.title} | {_all_of(alike)} {_verb(effect, len(alike))}{_along(alike)} | {text} |"
        for ((risk, text), _, effect), alike in sorted(
            fates.items(), key=lambda fate: (fate[0][0].risk, not fate[0][1].startswith(_SERVES))
        )
        if risk is not Risk.NONE
    ]
    lines = [*_lost_models(comparison), *lines, *_permission_rows(comparison.permissions.widened)]
    if lost := comparison.watching.alarms_lost:
        are = "is" if len(lost) == 1 else "are"
        lines.append(f"| 🙈 alarm | {_codes(lost)} {are} removed | no one is notified |")
    lines += [
        f"| 🧟 orphaned | The stack `{name}` is no longer in the app | deployments do not touch it: it "
        f"keeps running and is billed until `aws cloudformation delete-stack --stack-name {name}` |"
        for name in comparison.stacks_left
    ]
    if lines:
        yield "\n".join(["| risk | what | why it matters |", "|---|---|---|", *lines])


def _lost_models(comparison: Comparison) -> Iterator[str]:
    for each in comparison.moves_without:
        one = len(each.models) == 1
        leave, they, word = ("leaves", "it", "name") if one else ("leave", "they", "names")
        yield (
            f"| 🛑 deployment stops | {_codes(each.models)} {leave} `models` while the fleet moves from "
            f"{each.before} to {each.after} | `Custom::TritonNames` fails if {they} cannot be loaded there: "
            f"add the published {word} {_codes(map(published_name, each.models))} to `retired_models` |"
        )


def _permission_rows(widened: Sequence[Grant]) -> Iterator[str]:
    """Return a row for each wider permission; many ordinary ones share a row, which the details list."""
    folded = _folded_permissions(widened)
    for grants in _grouped(widened):
        if grants not in folded:
            yield f"| 🔑 permission | {_permission(grants)} | {_upon(grants)} |"
    if folded:
        holders: Counter[str] = Counter()
        for grants in folded:
            holders[_holder(grants)] += len(grants)
        total = _counted(holders.total(), "permission", "permissions")
        named = ", ".join(f"{number} of {who}" for who, number in holders.items())
        yield f"| 🔑 permission | {total}: {named} | on named resources, or under a condition; see below |"


def _folded_permissions(widened: Sequence[Grant]) -> list[list[Grant]]:
    """Return the ordinary permissions that share a row; few of them have rows of their own."""
    ordinary = [grants for grants in _grouped(widened) if not grants[0].is_broad]
    return ordinary if len(ordinary) > _MOST_PERMISSIONS else []


def _permission(grants: list[Grant]) -> str:
    actions = _codes(each.action for each in grants)
    return f"{_holder(grants)} may now {'' if grants[0].allowed else 'do what was denied: '}{actions}"


def _all_of(alike: list[Change]) -> str:
    if len(alike) == 1:
        return _what(alike[0])
    paths = _codes(change.resource.path for change in alike[:_MOST_PATHS])
    if (more := len(alike) - _MOST_PATHS) > 0:
        paths += f" and {more} more"
    return f"{len(alike)} {_word(alike[0].resource)}s ({paths})"


def _along(alike: list[Change]) -> str:
    causes = sorted({change.cause for change in alike if change.cause is not None})
    return f" along with {' and '.join(f'`{cause}`' for cause in causes)}" if causes else ""


def _verb(effect: Effect, number: int) -> str:
    return _VERBS[effect][number > 1]


def _what(change: Change) -> str:
    word = _word(change.resource)
    if change.effect is Effect.RENAMED and change.before is not None:
        return f"The {word} `{change.before.path}`, now `{change.resource.path}`,"
    return f"{word if '::' in word else f'The {word}'} `{change.resource.path}`"


def _word(resource: Resource) -> str:
    return WORDS.get(resource.type, resource.type)


def _grouped(widened: Iterable[Grant]) -> list[list[Grant]]:
    """Permissions that differ in their action alone, together."""
    groups: dict[tuple[str, str, str, bool], list[Grant]] = {}
    for each in widened:
        groups.setdefault((each.who, each.resource, each.condition, each.allowed), []).append(each)
    return list(groups.values())


def _holder(grants: list[Grant]) -> str:
    who = grants[0].who
    return "**anyone**" if who == "*" else f"`{_code(who)}`"


def _upon(grants: list[Grant]) -> str:
    first = grants[0]
    wide = "on **everything**" if first.resource == "*" else f"on `{_code(first.resource)}`"
    return f"{wide}{f', if `{_code(first.condition)}`' if first.condition else ''}"


def _cost(comparison: Comparison) -> Iterator[str]:
    before, after = comparison.costs_before, comparison.costs_after
    afterwards = fleets(comparison.after.assembly)
    unknown = sorted({each.instance_type for each in afterwards if each.name not in after})
    if not before and not after and not unknown:
        return
    parts = ["#### Cost"]
    was, is_ = ({name: (each.floor, each.ceiling) for name, each in one.items()} for one in (before, after))
    if was != is_:
        rows = ["| USD per month | before | after |", "|---|---|---|"]
        for name in dict.fromkeys((*before, *after)):
            old, new = before.get(name), after.get(name)
            for end, amount in (("minimum", "floor"), ("maximum", "ceiling")):
                rows.append(f"| `{name}`, {end} capacity | {_amount(old, amount)} | {_amount(new, amount)} |")
        parts.append("\n".join(rows))
    elif after:
        parts.append("Unchanged.")
    if unknown:
        parts.append(f"The price of {', '.join(unknown)} is unknown.")
    arithmetic = [f"* {line}" for estimate in after.values() for line in estimate.lines()]
    if arithmetic:
        parts.append(_folded("Calculation", "\n".join(arithmetic)))
    yield "\n\n".join(parts)


def _amount(estimate: Estimate | None, name: str) -> str:
    return "nothing" if estimate is None else dollars(getattr(estimate, name))


def _models(comparison: Comparison) -> Iterator[str]:
    before, after = targets(comparison.before.assembly), targets(comparison.after.assembly)
    parts = []
    if comparison.models:
        parts.append("\n".join(_table_of_models(comparison, " and ".join(after))))
    if before and after and before != after:
        parts.append(
            f"Built for {' and '.join(after)}, previously for {' and '.join(before)}: every model must be "
            "rebuilt and published, because a plan loads only in one TensorRT version on one GPU model."
        )
    if comparison.before.declared.toolkit != comparison.after.declared.toolkit:
        parts.append("The toolkit that builds them differs: `fleet diff` lists the models to rebuild.")
    if parts:
        yield "\n\n".join(["#### Models", *parts])


def _table_of_models(comparison: Comparison, built_for: str) -> Iterator[str]:
    published = comparison.published
    titles = ["model", "what", "built for", *(["published now"] if published is not None else [])]
    yield _row(titles)
    yield "|---" * len(titles) + "|"
    for each in comparison.models:
        cells = [f"`{each.name}`", _became(each), (built_for if each.built else "") or "nothing"]
        if published is not None:
            cells.append(published.get(published_name(each.name), "nothing"))
        yield _row(cells)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _became(change: ModelChange) -> str:
    words = {
        "removed": "removed; its published artifact stays and can be called",
        "built": "the build job now builds it",
        "not built": "the build job no longer builds it; its published artifact stays and can be called",
    }
    files = f": {_codes(change.files)}" if change.files else ""
    idle = change.what in ("added", "changed") and not change.built
    unbuilt = "; **not in `models`, so the build job does not build it**" if idle else ""
    forms = "; only its forms are built" if change.only_forms else ""
    return f"{words.get(change.what, change.what)}{files}{unbuilt}{forms}"


def _watching(comparison: Comparison) -> Iterator[str]:
    if lines := comparison.watching.lines:
        yield "\n".join(["#### Alarms and dashboard", "", *(f"* {each}" for each in lines)])


def _warnings(comparison: Comparison) -> Iterator[str]:
    if comparison.warnings:
        lines = [f"* `{each.path}`: {each.text}" for each in comparison.warnings]
        yield "\n".join(["#### New warnings", "", *lines])


def _details(comparison: Comparison) -> Iterator[str]:
    if comparison.changes:
        rows = [line for change in comparison.changes for line in _detail(change, comparison)]
        total = _counted(len(comparison.changes), "resource", "resources")
        yield _folded(f"Every change: {total}", "\n".join(rows))
    if widened := _folded_permissions(comparison.permissions.widened):
        lines = [f"* {_permission(each)} {_upon(each)}" for each in widened]
        yield _folded(f"Permissions widened: {sum(map(len, widened))}", "\n".join(lines))
    if narrowed := comparison.permissions.narrowed:
        lines = [
            f"* {_holder(each)} no longer: {_codes(one.action for one in each)} {_upon(each)}"
            for each in _grouped(narrowed)
        ]
        yield _folded(f"Permissions narrowed: {len(narrowed)}", "\n".join(lines))


def _detail(change: Change, comparison: Comparison) -> Iterator[str]:
    yield f"* {_what(change)} {_verb(change.effect, 1)}{_along([change])}"
    for each in change.properties[:_MOST_ROWS]:
        yield f"  * {_property(each, change, comparison)}"
    if (left := len(change.properties) - _MOST_ROWS) > 0:
        yield f"  * and {left} more"


def _property(change: PropertyChange, of: Change, comparison: Comparison) -> str:
    before = of.before or of.resource
    old = _text(change.before, before.stack, comparison.before.assembly)
    new = _text(change.after, of.resource.stack, comparison.after.assembly)
    start = 0 if old is None or new is None else _first_difference(old, new)
    return f"`{change.path}`: {_span(old, start)} → {_span(new, start)}"


def _text(value: Any, stack: str, assembly: Assembly) -> str | None:
    return None if value is None else _HASH.sub(r"\1…", written(value, stack, assembly))


def _first_difference(old: str, new: str) -> int:
    """The beginning of the first word that differs, so that a digest is shown from its beginning."""
    at = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), 0)
    return len(old[:at].rstrip("0123456789abcdef"))


def _span(text: str | None, difference: int) -> str:
    """A value as code; of a long one the part where it differs."""
    if text is None:
        return "nothing"
    begin = max(0, difference - _BEFORE) if len(text) > _LONGEST_VALUE else 0
    end = begin + _LONGEST_VALUE
    return f"`{'…' if begin else ''}{_code(text[begin:end])}{'…' if len(text) > end else ''}`"


def _codes(texts: Iterable[str]) -> str:
    return ", ".join(f"`{each}`" for each in texts)


def _code(text: str) -> str:
    return text.replace("`", "'").replace("|", "\\|").replace("\n", " ")


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{content}\n\n</details>"


def _counted(number: int, one: str, many: str) -> str:
    return "" if not number else f"{number} {one if number == 1 else many}"
