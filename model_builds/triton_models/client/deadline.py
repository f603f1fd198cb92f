"""The time limit of a call."""

from __future__ import annotations

from dataclasses import dataclass, field

from triton_models.base.clock import CLOCK, Clock


@dataclass(frozen=True, slots=True)
class Deadline:
    """The end of a call."""

    limit_s: float
    clock: Clock = CLOCK
    began: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "began", self.clock.now())

    @property
    def elapsed_s(self) -> float:
        """The time since the call began."""
        return self.clock.now() - self.began

    @property
    def left_s(self) -> float:
        """The remaining time; 0 after the deadline."""
        return max(0.0, self.limit_s - self.elapsed_s)
