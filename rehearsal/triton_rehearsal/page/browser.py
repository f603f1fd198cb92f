"""Takes a picture of a page with the Chromium of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from triton_models.base.errors import FleetError

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_WIDTH = 1440
_LIMIT_S = 60
# The page's script writes it on the root element.
_HEIGHT = re.compile(r'<html[^>]* data-height="(\d+)"')


def find() -> str:
    """Return the path of a Chromium.

    Raises:
        FleetError: Chromium is not installed.
    """
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        raise FleetError.of(
            what="a PNG needs a browser, and there is none",
            where="the PATH",
            expected=f"one of {', '.join(_NAMES)}",
            fix="install it, with `apt install chromium` on Debian, or write an .html file instead",
        )
    return found


def take_picture(page: Path, file: Path) -> None:
    """Write a PNG of a whole page.

    Raises:
        FleetError: There is no Chromium, or it fails.
    """
    chromium = find()
    with tempfile.TemporaryDirectory(prefix="fleet-browser-") as profile:
        options = [
            "--headless=new", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
            f"--user-data-dir={profile}",
            *(["--no-sandbox"] if os.getuid() == 0 else []),  # Chromium refuses root otherwise
        ]  # fmt: skip
        shown = _run([chromium, *options, f"--window-size={_WIDTH},1000", "--dump-dom", page.as_uri()])
        height = _HEIGHT.search(shown)
        size = f"{_WIDTH},{height[1] if height else 1000}"
        picture = Path(profile) / "page.png"
        said = _run([chromium, *options, f"--window-size={size}", f"--screenshot={picture}", page.as_uri()])
        if height is None or not picture.is_file():
            raise _failed(chromium, said)
        shutil.copyfile(picture, file)


def _run(command: list[str]) -> str:
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise _failed(command[0], f"no end after {_LIMIT_S} s") from error
    if run.returncode:
        raise _failed(command[0], run.stderr)
    return run.stdout


def _failed(chromium: str, said: str) -> FleetError:
    return FleetError.of(
        what=f"{chromium} took no picture of the page: {said.strip()[-500:]}",
        where="--report",
        expected="a browser that runs on this machine",
        fix="write an .html file instead, and open it in a browser",
    )
