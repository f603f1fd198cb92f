"""The environment of a rehearsed build's container: the image's variables, and the differences from AWS.

A container starts with an empty environment. This machine's variables do not get into it, except those in
`DIFFERENCES`. A test compares the variables of a deployed project and a job's request with those that arrive.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from triton_models.builds.locked import PACKAGES
from triton_models.deliver.verify.server import SOCKETS
from triton_rehearsal.triton.command import install
from triton_rehearsal.triton.machine import Machine

if TYPE_CHECKING:
    from embedded_aws import EmbeddedAws

DIFFERENCES: Mapping[str, str] = MappingProxyType(
    {
        "FLEET_PORTABLE": "there is no GPU: a stand-in replaces the plan",
        "AWS_ACCESS_KEY_ID": "the embedded AWS has keys, a role has an address for credentials",
        "AWS_SECRET_ACCESS_KEY": "as AWS_ACCESS_KEY_ID",
        "AWS_SESSION_TOKEN": "as AWS_ACCESS_KEY_ID",
        "AWS_ENDPOINT_URL": "the embedded AWS's address",
        "AWS_ENDPOINT_URL_S3": "the embedded AWS's address",
        "AWS_EC2_METADATA_DISABLED": "there is no instance to ask for credentials",
        "AWS_CONFIG_FILE": "the profiles of this machine's user are not a container's",
        "AWS_SHARED_CREDENTIALS_FILE": "as AWS_CONFIG_FILE",
        "CDK_DISABLE_CLI_TELEMETRY": "comes with the embedded AWS's address, and has no effect on builds",
        "HOME": "a folder of the build, instead of /root",
        "PYTHONUSERBASE": "the same folder: pip installs for the user there, instead of ~/.local",
        "TMPDIR": "a folder of the build, instead of /tmp",
        "PATH": "this machine's programs, after stand-ins for the image's",
        "HF_HOME": "this machine's cache of the model hub, so that weights are not fetched for each build",
        SOCKETS: "a server listens where only this machine's user can reach it: it runs what it receives",
        "PIP_CONFIG_FILE": "this machine's, which may name the only index within reach",
    }
)
"""The variables that differ from those of a container on AWS, with reasons. `NETWORK` has more of them."""

NETWORK = frozenset(
    {
        *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("PIP_CERT", "PIP_CLIENT_CERT", "PIP_PROXY", "PIP_TRUSTED_HOST", "PIP_DEFAULT_TIMEOUT"),
        *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_CACHE_DIR"),
        *("HF_ENDPOINT", "HF_HUB_OFFLINE", "LD_LIBRARY_PATH"),
    }
)
"""Variables for access to a network, an index and this machine's libraries. A build on AWS has access too."""

# The image includes pip. It also includes DALI, whose packages `make rehearse-all` installs.
_OF_THE_IMAGE = ("pip", "setuptools", "wheel", "nvidia-dali-cuda130", "nvidia-nvimgcodec-cu13", "optree")
_OF_DALI = ("astunparse", "gast", "libcst", "makefun", "nvtx")
_LITTLE = ("boto3", "protobuf")  # packages that a build installs before it first reads the declarations

_Wanted: TypeAlias = tuple[str, tuple[str, ...]]  # a package and its extras

_NAME = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[(?P<extras>[^\]]*)\])?")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")
_LIBRARY = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


def container_environment(
    aws: EmbeddedAws, machine: Machine, *, folder: Path, requirements: str
) -> dict[str, str]:
    """Install the programs of a container's image, and return the container's own variables.

    It can import the packages in the requirements of its models, and the toolkit's.
    """
    programs, home = folder / "bin", folder / "home"
    temporary, sockets = folder / "tmp", folder / "sockets"
    temporary.mkdir()
    sockets.mkdir(mode=0o700)
    machine.install(programs)
    install(programs)
    toolkit = (PACKAGES / "requirements.txt").read_text()
    install_python(programs, home=home, requirements=toolkit + requirements)
    inherited = {name: value for name, value in os.environ.items() if name in NETWORK}
    return {
        **aws.environment_of(inherited),
        **_kept(),
        **machine.variables(),
        "PATH": os.pathsep.join([str(programs), os.environ.get("PATH", os.defpath)]),
        "HOME": str(home),
        "PYTHONUSERBASE": str(home),
        "TMPDIR": str(temporary),
        SOCKETS: str(sockets),
    }


def _kept() -> dict[str, str]:
    """Return variables for files in the user's home, since the container has another home."""
    home = Path.home()
    hub = os.environ.get("HF_HOME", str(home / ".cache" / "huggingface"))
    configured = [home / ".config" / "pip" / "pip.conf", home / ".pip" / "pip.conf"]
    given = os.environ.get("PIP_CONFIG_FILE")
    found = given or next((str(each) for each in configured if each.is_file()), None)
    return {"HF_HOME": hub, **({"PIP_CONFIG_FILE": found} if found else {})}


def install_python(programs: Path, *, home: Path, requirements: str) -> None:
    """Put the python3 of a container into a folder, and its installed packages into the home of its user.

    As in the image, it is not a virtual environment: it is the base interpreter of the rehearsal's own one,
    so that pip can install packages for the user. The packages in the build's requirements, and those that
    they require, are already present as links to the rehearsal's own. Other packages of the rehearsal are
    not. pip does not change the links, because they are in no folder from which it removes packages.
    """
    programs.mkdir(parents=True, exist_ok=True)
    interpreter = Path(getattr(sys, "_base_executable", "") or sys.executable)
    for name in ("python", "python3"):
        (programs / name).symlink_to(interpreter)
    packages = home / "installed"
    packages.mkdir(parents=True)
    named = tuple(_wanted(found) for line in requirements.splitlines() if (found := _NAME.match(line)))
    for path in _links(named):
        (packages / path.name).symlink_to(path)
    site = home / _LIBRARY
    site.mkdir(parents=True)
    (site / "installed.pth").write_text(f"{packages}\n")


def _wanted(found: re.Match[str]) -> _Wanted:
    name = re.sub(r"[-_.]+", "-", found["name"]).lower()
    return name, tuple(sorted(each.strip() for each in (found["extras"] or "").split(",") if each.strip()))


@functools.lru_cache(maxsize=8)
def _links(wanted: tuple[_Wanted, ...]) -> tuple[Path, ...]:
    always = [(name, ()) for name in (*_LITTLE, *_OF_THE_IMAGE, *_OF_DALI)]
    found = dict.fromkeys(path for each in _closure([*wanted, *always]) for path in _top(each))
    return tuple({path.name: path for path in found}.values())


def _closure(wanted: Iterable[_Wanted]) -> Iterator[metadata.Distribution]:
    """Yield the installed packages among these, and their requirements, including requested extras."""
    waiting, seen = list(wanted), set[_Wanted]()
    while waiting:
        name, extras = each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # pip gets it from an index, as in an account
        yield found
        for required in found.requires or ():
            only_with = _EXTRA.findall(required)
            if (not only_with or set(only_with) & set(extras)) and (match := _NAME.match(required)):
                waiting.append(_wanted(match))


def _top(found: metadata.Distribution) -> Iterator[Path]:
    place = Path(str(found.locate_file("")))
    if place != Path(sysconfig.get_path("purelib")):
        return  # an editable installation, or a package of the interpreter, which it finds anyway
    for name in dict.fromkeys(file.parts[0] for file in found.files or ()):
        if name not in ("..", "__pycache__") and (place / name).exists():
            yield place / name
