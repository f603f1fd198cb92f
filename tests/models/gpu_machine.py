"""A machine with a GPU as a build sees it: nvidia-smi and trtexec are executables put on PATH by a test."""

from __future__ import annotations

import struct
from pathlib import Path

from trtexec_options import options_of

BANNER = "&&&& RUNNING TensorRT.trtexec [TensorRT v101303] [b9] # trtexec"

TRTEXEC = """#!/bin/sh
echo '{banner}'
[ "$1" = --help ] && echo ' {options} ' && exit 0
echo "$@" >> {log}
for argument; do
  case ' {options} ' in
    *" ${{argument%%=*}} "*) ;;
    *) echo "[11/21/2026-10:00:00] [E] Unknown option: ${{argument%%=*}} ${{argument#*=}}"; exit 1;;
  esac
done
for argument; do
  case $argument in
    --saveEngine=*) printf '{plan}' > "${{argument#*=}}";;
    --timingCacheFile=*) cat "${{argument#*=}}" >> {log}.times; echo measured >> "${{argument#*=}}";;
  esac
done 2> /dev/null
{ending}
"""


def plan(*version: int) -> bytes:
    """The beginning of a plan of a TensorRT version."""
    return struct.pack("<4sI16x4B", b"ftrt", 0, *version) + b"the rest"


def install(
    folder: Path,
    *,
    log: Path,
    gpus: tuple[str, ...] = ("NVIDIA A10G",),
    banner: str = BANNER,
    version: tuple[int, ...] = (10, 13, 3, 9),
    ending: str = "exit 0",
) -> None:
    """Write the executables into a folder.

    trtexec notes its arguments in a log, and what a timing cache held in another, to which it adds a line. It
    refuses options that the TensorRT of the version does not have.
    """
    octal = "".join(f"\\{byte:03o}" for byte in plan(*version))
    scripts = {
        "nvidia-smi": "#!/bin/sh\n" + "".join(f"echo '{name}'\n" for name in gpus),
        "trtexec": TRTEXEC.format(
            banner=banner,
            log=log,
            plan=octal,
            ending=ending,
            options=" ".join(sorted(options_of(".".join(map(str, version))))),
        ),
    }
    folder.mkdir(exist_ok=True)
    for name, text in scripts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
