"""The settings that differ: the cause of every other difference, in the words of a person."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from triton_report.assembly import Assembly
from triton_report.declared import Declared, ModelChange
from triton_report.intrinsics import written
from triton_report.spending import Fleet, fleets

_NOTHING = "nothing"
_IMAGE = re.compile(r"tritonserver:(\d+\.\d+)")
_MOST_NAMES = 5
_LONGEST_VALUE = 60

# Settings of cdk.json that the templates contain as well, in clearer words.
_IN_TEMPLATES = frozenset(
    {
        "gpu_utilization_percent",
        "instance_type",
        "invocations_per_gpu_per_minute",
        "max_capacity",
        "min_capacity",
        "models",
        "release",
    }
)
# Scaling metrics whose own names are long or unclear.
_METRICS: Mapping[str, str] = {
    "GPUUtilization": "GPU",
    "GPUMemoryUtilization": "GPU memory",
    "CPUUtilization": "CPU",
    "SageMakerVariantInvocationsPerInstance": "invocations",
    "SageMakerVariantConcurrentRequestsPerModelHighResolution": "concurrency",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting that differs, such as "instance type"; its value is "nothing" if it had or has none."""

    name: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.name} {self.before} → {self.after}"


def setting_changes(before: Assembly, after: Assembly, old: Declared, new: Declared) -> Iterator[Setting]:
    """Yield the settings that differ: of the fleets first, then the release and the rest of cdk.json."""
    was, is_ = fleets(before), fleets(after)
    for one, other in _pairs(was, is_):
        prefix = f"`{other.name}` " if len(is_) > 1 else ""
        yield from _differences(_of_fleet(one, before), _of_fleet(other, after), prefix=prefix)
    yield from _differences({"release": _releases(before)}, {"release": _releases(after)})
    yield from _differences({"triton-fleet": old.library}, {"triton-fleet": new.library})
    yield from _differences(_others(old), _others(new))


def model_summary(changes: Iterable[ModelChange]) -> str:
    """Return the changed models in one phrase: "models + churn - bert, minilm changed"; "" without any."""
    listed = list(changes)
    signs = [
        (sign, [each.name for each in listed if each.built == built and each.what in kinds])
        for sign, built, kinds in (("+", True, {"added", "built"}), ("-", False, {"removed", "not built"}))
    ]
    moved = " ".join(f"{sign} {_names(names)}" for sign, names in signs if names)
    changed = [each.name for each in listed if each.what == "changed" and each.built]
    idle = [each.name for each in listed if each.what in {"added", "changed"} and not each.built]
    said = [
        f"models {moved}" if moved else "",
        f"{_names(changed)} changed" if changed else "",
        f"{_names(idle)} not in `models`" if idle else "",
    ]
    text = ", ".join(each for each in said if each)
    return text if moved or not text else f"model{'s' * (len(listed) > 1)} {text}"


def _names(names: list[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _pairs(was: list[Fleet], is_: list[Fleet]) -> Iterator[tuple[Fleet, Fleet]]:
    """Yield the fleets that are the same one, by name; a lone fleet is the same under any name."""
    if len(was) == len(is_) == 1:
        yield was[0], is_[0]
        return
    known = {(fleet.stack, fleet.name): fleet for fleet in was}
    yield from ((known[key], fleet) for fleet in is_ if (key := (fleet.stack, fleet.name)) in known)


def _of_fleet(fleet: Fleet, assembly: Assembly) -> dict[str, str]:
    same = fleet.least == fleet.most
    return {
        "instance type": fleet.instance_type,
        "capacity": str(fleet.least) if same else f"{fleet.least} to {fleet.most}",
        **dict(_targets(fleet, assembly)),
    }


def _targets(fleet: Fleet, assembly: Assembly) -> Iterator[tuple[str, str]]:
    for policy in fleet.policies:
        tracking = policy.properties.get("TargetTrackingScalingPolicyConfiguration", {})
        predefined = tracking.get("PredefinedMetricSpecification", {}).get("PredefinedMetricType")
        custom = tracking.get("CustomizedMetricSpecification", {}).get("MetricName")
        metric = predefined or custom or policy.path.rpartition("/")[2]
        if "TargetValue" in tracking:
            value = tracking["TargetValue"]
            text = f"{value:g}" if isinstance(value, int | float) else written(value, policy.stack, assembly)
            yield f"{_METRICS.get(metric, metric)} target", text


def _releases(assembly: Assembly) -> str:
    images = (
        written(each.properties.get("PrimaryContainer", {}).get("Image"), each.stack, assembly)
        for each in assembly.of_type("AWS::SageMaker::Model")
    )
    return " and ".join(sorted({found[1] for image in images if (found := _IMAGE.search(image))}))


def _others(declared: Declared) -> dict[str, str]:
    """Return the settings of cdk.json that the templates do not contain, in code spans."""
    return {
        f"`{name}`": f"`{_shortened(value)}`" if value else _NOTHING
        for name, value in declared.settings.items()
        if name.rpartition(".")[2] not in _IN_TEMPLATES
    }


def _shortened(value: str) -> str:
    return value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}…"


def _differences(
    before: Mapping[str, str], after: Mapping[str, str], *, prefix: str = ""
) -> Iterator[Setting]:
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name) or _NOTHING, after.get(name) or _NOTHING
        if old != new:
            yield Setting(name=f"{prefix}{name}", before=old, after=new)
