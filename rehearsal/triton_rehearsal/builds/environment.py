"""The environment of a rehearsed build's container: the image's variables, and the differences from AWS.

A container starts with an empty environment. This machine's variables do not get into it, except those in
`DIFFERENCES`. A test compares the variables of a deployed project and a job's request with those that arrive.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from triton_models.builds.locked import PACKAGES
from triton_models.deliver.verify.process import SOCKETS
from triton_rehearsal.builds.python import install_python
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


def container_environment(
    aws: EmbeddedAws, machine: Machine, *, folder: Path, requirements: str
) -> dict[str, str]:
    """Install the programs of a container's image, and return the container's own variables.

    Args:
        aws: The AWS that the container calls.
        machine: The container's machine.
        folder: The container's own folder.
        requirements: The requirements of its models. It can import their packages and the toolkit's.
    """
    programs, home = folder / "bin", folder / "home"
    temporary, sockets = folder / "tmp", folder / "sockets"
    temporary.mkdir()
    sockets.mkdir(mode=0o700)
    machine.install(programs)
    install(programs)
    install_python(programs, home=home, requirements=_toolkits() + requirements)
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


def _toolkits() -> str:
    """Return the requirements of a build's toolkit."""
    return (PACKAGES / "requirements.txt").read_text()


def _kept() -> dict[str, str]:
    """Return variables for files in the user's home, since the container has another home."""
    home = Path.home()
    hub = os.environ.get("HF_HOME", str(home / ".cache" / "huggingface"))
    configured = [home / ".config" / "pip" / "pip.conf", home / ".pip" / "pip.conf"]
    given = os.environ.get("PIP_CONFIG_FILE")
    found = given or next((str(each) for each in configured if each.is_file()), None)
    return {"HF_HOME": hub, **({"PIP_CONFIG_FILE": found} if found else {})}
