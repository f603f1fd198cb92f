"""The target of a network that PyTorch compiled, read from its model.pt2 without PyTorch."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from triton_models.base.json_text import parsed

_METADATA = "_metadata.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledHead:
    """The target in a model.pt2, as torch/_inductor/codecache.py of PyTorch 2.13 writes it (2026-11-24).

    Attributes:
        device: "cuda" or "cpu".
        compute_capability: That of the GPU, such as "8.6"; empty for a CPU.
    """

    device: str
    compute_capability: str


def read_compiled(file: Path | IO[bytes]) -> CompiledHead | None:
    """Return the target of a compiled network; None if it cannot be read."""
    try:
        with zipfile.ZipFile(file) as archive:
            entry = next(name for name in archive.namelist() if name.endswith(_METADATA))
            said = parsed(archive.read(entry))
        number = str(said.get("AOTI_COMPUTE_CAPABILITY") or "")
        capability = f"{number[:-1]}.{number[-1]}" if number.isdigit() else ""
        return CompiledHead(device=str(said["AOTI_DEVICE_KEY"]), compute_capability=capability)
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, AttributeError, StopIteration):
        return None
