"""`fleet check --fits`: how many models an instance of a type holds at a time, and what the limit is."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from triton_models.artifact.pbtxt import GPU_MEMORY
from triton_models.artifact.profile import LEAST, LIKELY, MIB, MOST, UNKNOWN, Profile
from triton_models.base.checks import Check
from triton_models.base.errors import Problem
from triton_models.base.suggest import did_you_mean
from triton_models.facts.containers import CONTAINER_BYTES
from triton_models.facts.gpu_memory import BACKENDS, SERVER_MIB, default_pool_mib
from triton_models.facts.instances import INSTANCE_TYPES, InstanceType

NO_ROOM = Check(id="no-room", source="triton_models.facts.gpu_memory and triton_models.facts.instances")
UNKNOWN_MEMORY = Check(id="unknown-memory", source="triton_models.check.hidden_memory")
MEASURE = (
    f"measure it on the GPU with `fleet census`, and write the figure into its config.pbtxt as {GPU_MEMORY}; "
    "if it computes on the CPU, give it KIND_CPU"
)

LIMITS: Mapping[str, str] = {
    "memory": "GPU memory",
    "host": "the host's memory",
    "shared": "shared memory",
    "disk": "the disk",
}
"""What may be used up, by the field of `Room`."""

_GB, _GIB = 10**9, 1 << 30
_VOLUME_GB = 30  # of types without local NVMe: a guess
_HOST_TAKEN_GIB = 4.0  # by the system, the server and its libraries: a guess


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What an instance has for models, in bytes: on each GPU, the host, in /dev/shm, and on its disk."""

    memory: float
    host: float
    shared: float
    disk: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The share of an instance that a model takes, and the field of `Room` of which it takes most."""

    fraction: float
    limit: str


def multi_model_types() -> Sequence[str]:
    """Return the instance types with GPUs that AWS documents for multi-model endpoints."""
    return [each.name for each in INSTANCE_TYPES.values() if each.multi_model_documented and each.gpu]


def room_of(about: InstanceType, *, backends: Collection[str], where: str) -> Room:
    """Return the room of an instance type besides the server and the libraries of the models' backends.

    Raises:
        FleetError: It has no GPU.
    """
    if about.gpu is None:
        documented = multi_model_types()
        fix = did_you_mean(about.name, documented, otherwise=f"name one of {', '.join(documented)}")
        raise NO_ROOM.error(what=f"{about.name} has no GPU", where=where, fix=fix)
    libraries = sum(BACKENDS[each].first for each in backends if each in BACKENDS)
    taken = SERVER_MIB + default_pool_mib(about.gpu) + libraries
    return Room(
        memory=float((about.gpu.memory_mib - taken) * MIB),
        host=(about.memory_gib - _HOST_TAKEN_GIB) * _GIB,
        shared=float(CONTAINER_BYTES),
        disk=float(about.nvme_gb or _VOLUME_GB) * _GB,
    )


def share_of(profile: Profile, room: Room, end: int = LIKELY) -> Share:
    """Return the largest share that a model takes of anything, with an end of its ranges."""
    return taken([profile], room, end)


def no_room(profile: Profile, room: Room, about: InstanceType) -> Iterator[Problem]:
    """Yield a problem for a model that does not fit alone, or whose memory is unknown."""
    if profile.memory.is_unknown:
        yield unknown_memory(profile)
        return
    share = share_of(profile, room)
    if share.fraction <= 1:
        return
    has = getattr(room, share.limit) / MIB
    yield NO_ROOM.problem(
        what=f"it needs about {share.fraction * has:,.0f} MiB of {LIMITS[share.limit]}",
        where=f"model {profile.name!r}",
        why=f"an {about.name} has {has:,.0f} MiB for models, so each load would fail",
        fix="make it smaller, such as with a lower precision, or choose a larger instance type",
    )


def unknown_memory(profile: Profile) -> Problem:
    """Return the problem of a model whose memory nothing shows."""
    return UNKNOWN_MEMORY.problem(
        what="the GPU memory that it needs is unknown",
        where=f"model {profile.name!r}",
        why=profile.memory.source.removeprefix(UNKNOWN),
        fix=MEASURE,
    )


def taken(profiles: Sequence[Profile], room: Room, end: int = LIKELY) -> Share:
    """Return the share that models take together."""
    shares = [
        (sum(_needs(profile, limit, end) for profile in profiles) / getattr(room, limit), limit)
        for limit in LIMITS
    ]
    fraction, limit = max(shares, key=lambda share: share[0])
    return Share(fraction=fraction, limit=limit)


def _needs(profile: Profile, limit: str, end: int = LIKELY) -> float:
    return profile.disk if limit == "disk" else float(getattr(profile, limit).values[end])


def no_room_for_hot(
    hot: Sequence[str], profiles: Sequence[Profile], room: Room, about: InstanceType
) -> Iterator[Problem]:
    """Yield problems of hot models: unknown names, and models that do not fit together."""
    names = [profile.name for profile in profiles]
    for name in sorted({*hot} - {*names}):
        fix = did_you_mean(name, names, otherwise=f"name some of {', '.join(names)}")
        yield NO_ROOM.problem(what=f"{name!r} is not one of these models", where="--hot", fix=fix)
    pinned = [profile for profile in profiles if profile.name in hot]
    others = [profile for profile in profiles if profile.name not in hot]
    largest = sorted(others, key=lambda profile: share_of(profile, room).fraction)[-1:]
    share = taken([*pinned, *largest], room)
    if pinned and share.fraction > 1:
        mib = [(profile.name, _needs(profile, share.limit) / MIB) for profile in [*pinned, *largest]]
        needs = sum(need for _, need in mib[: len(pinned)])
        models = ", ".join(f"{name} {need:,.0f}" for name, need in mib[: len(pinned)])
        what = f"the hot models need about {needs:,.0f} MiB of {LIMITS[share.limit]} ({models})"
        for name, need in mib[len(pinned) :]:
            what += f", and {name}, the largest other model, {need:,.0f}"
        yield NO_ROOM.problem(
            what=what,
            where="--hot",
            why=f"an {about.name} has {getattr(room, share.limit) / MIB:,.0f} MiB for models",
            fix="name fewer hot models, or choose a larger instance type",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits:
    """How many models fit on an instance, whose room is besides the libraries of all these models."""

    type: InstanceType
    room: Room
    profiles: Sequence[Profile]

    @property
    def _together(self) -> Share | None:
        is_unknown = any(profile.memory.is_unknown for profile in self.profiles)
        return None if is_unknown else taken(self.profiles, self.room)

    def as_dict(self) -> dict[str, Any]:
        """Return how many copies of each model fit, and the share of all, as JSON-ready data."""
        models: dict[str, Any] = {}
        for profile in self.profiles:
            known = not profile.memory.is_unknown
            models[profile.name] = {
                "copies": self._copies(profile) if known else None,
                "limit": share_of(profile, self.room).limit if known else None,
                "memory": list(profile.memory.values) if known else None,
                "source": profile.memory.source,
            }
        share = self._together
        together = share and {"share": share.fraction, "limit": share.limit}
        return {"instance_type": self.type.name, "models": models, "together": together}

    def lines(self) -> Iterator[str]:
        """Yield a line for each model, and one for all of them."""
        for profile in self.profiles:
            memory = profile.memory
            if memory.is_unknown:
                yield f"{profile.name}: how many an {self.type.name} holds is {memory.source}"
                continue
            fewest, likely, most = self._copies(profile)
            count = f"{likely:,}" if fewest == most else f"{likely:,} ({fewest:,} to {most:,})"
            yield (
                f"{profile.name}: an {self.type.name} holds {count} such models; the limit is "
                f"{LIMITS[share_of(profile, self.room).limit]} ({memory.values[LIKELY] / MIB:,.0f} MiB of a "
                f"GPU each, {memory.source})"
            )
        together = self._together
        if len(self.profiles) > 1 and together:
            fit = "fit" if together.fraction <= 1 else "do not fit"
            yield (
                f"All {len(self.profiles):,} {fit} at a time: they take {together.fraction:.0%} of "
                f"{LIMITS[together.limit]}"
            )

    def _copies(self, profile: Profile) -> list[int]:
        """Return how many copies of a model fit: at least, likely and at most."""
        shares = [share_of(profile, self.room, end).fraction for end in (MOST, LIKELY, LEAST)]
        return [int(1 / share) if share else 0 for share in shares]
