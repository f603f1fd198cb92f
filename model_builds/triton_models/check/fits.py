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
    shares = {
        limit: sum(_needs(each, limit, end) for each in profiles) / getattr(room, limit) for limit in LIMITS
    }
    limit = max(shares, key=lambda each: shares[each])
    return Share(fraction=shares[limit], limit=limit)


def _needs(profile: Profile, limit: str, end: int = LIKELY) -> float:
    return profile.disk if limit == "disk" else float(getattr(profile, limit).values[end])


def no_room_for_hot(
    hot: Sequence[str], profiles: Sequence[Profile], room: Room, about: InstanceType
) -> Iterator[Problem]:
    """Yield problems of hot models: unknown names, and models that do not fit together."""
    names = {each.name: each for each in profiles}
    for name in sorted({*hot} - {*names}):
        fix = did_you_mean(name, names, otherwise=f"name some of {', '.join(names)}")
        yield NO_ROOM.problem(what=f"{name!r} is not one of these models", where="--hot", fix=fix)
    pinned = [each for name, each in names.items() if name in hot]
    others = [each for name, each in names.items() if name not in hot]
    largest = sorted(others, key=lambda each: share_of(each, room).fraction)[-1:]
    share = taken([*pinned, *largest], room)
    if pinned and share.fraction > 1:
        each_of = ", ".join(f"{each.name} {_needs(each, share.limit) / MIB:,.0f}" for each in pinned)
        needs = sum(_needs(each, share.limit) for each in pinned) / MIB
        what = f"the hot models need about {needs:,.0f} MiB of {LIMITS[share.limit]} ({each_of})"
        next_to = [
            f"{each.name}, the largest other model, {_needs(each, share.limit) / MIB:,.0f}"
            for each in largest
        ]
        yield NO_ROOM.problem(
            what=", and ".join([what, *next_to]),
            where="--hot",
            why=f"an {about.name} has {getattr(room, share.limit) / MIB:,.0f} MiB for models",
            fix="name fewer hot models, or choose a larger instance type",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits:
    """How many models fit on an instance.

    Attributes:
        room: Of the type, with the libraries of all these models.
    """

    type: InstanceType
    room: Room
    profiles: Sequence[Profile]

    @property
    def _some_unknown(self) -> bool:
        return any(each.memory.is_unknown for each in self.profiles)

    def as_dict(self) -> dict[str, Any]:
        """Return how many copies of each model fit, and the share of all, as JSON-ready data."""
        together = None if self._some_unknown else taken(self.profiles, self.room)
        return {
            "instance_type": self.type.name,
            "models": {
                each.name: {
                    "copies": None
                    if each.memory.is_unknown
                    else [_copies(each, self.room, end) for end in (MOST, LIKELY, LEAST)],
                    "limit": None if each.memory.is_unknown else share_of(each, self.room).limit,
                    "memory": None if each.memory.is_unknown else list(each.memory.values),
                    "source": each.memory.source,
                }
                for each in self.profiles
            },
            "together": together and {"share": together.fraction, "limit": together.limit},
        }

    def lines(self) -> Iterator[str]:
        """Yield a line for each model, and one for all of them."""
        for each in self.profiles:
            if each.memory.is_unknown:
                yield f"{each.name}: how many an {self.type.name} holds is {each.memory.source}"
                continue
            share = share_of(each, self.room)
            fewest, likely, most = (_copies(each, self.room, end) for end in (MOST, LIKELY, LEAST))
            count = f"{likely:,}" if fewest == most else f"{likely:,} ({fewest:,} to {most:,})"
            yield (
                f"{each.name}: an {self.type.name} holds {count} such models; the limit is "
                f"{LIMITS[share.limit]} ({each.memory.values[LIKELY] / MIB:,.0f} MiB of a GPU each, "
                f"{each.memory.source})"
            )
        if len(self.profiles) > 1 and not self._some_unknown:
            together = taken(self.profiles, self.room)
            fit = "fit" if together.fraction <= 1 else "do not fit"
            yield (
                f"All {len(self.profiles):,} {fit} at a time: they take {together.fraction:.0%} of "
                f"{LIMITS[together.limit]}"
            )


def _copies(profile: Profile, room: Room, end: int) -> int:
    fraction = share_of(profile, room, end).fraction
    return int(1 / fraction) if fraction else 0
