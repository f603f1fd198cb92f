"""The history of the sample fleet: the edits of each commit, and a repository with all commits."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SAMPLE = Path(__file__).parent / "sample_fleet"
MODELS = "model_builds/models"
READER = f"{MODELS}/reader/build.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A change of passages of app.py, and of other files, which None removes."""

    name: str
    edits: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str | None] = field(default_factory=dict)


def _declaration() -> str:
    return (SAMPLE / READER).read_text()


def _context(*models: str) -> str:
    listed = ", ".join(f'"{model}"' for model in models)
    context = f'{{"fleet": {{"models": [{listed}]}}, "models": [{listed}]}}'
    return f'{{"app": "python3 app.py", "context": {context}}}\n'


HISTORY = (
    Commit(name="a-comment", edits={"each commit": "every commit"}),
    Commit(name="more-instances", edits={"max_capacity=4": "max_capacity=6"}),
    Commit(name="a-larger-instance", edits={"ml.g5.2xlarge": "ml.g5.4xlarge"}),
    Commit(name="a-newer-release", edits={'release="25.09"': 'release="26.05"'}),
    Commit(
        name="a-second-model",
        files={
            f"{MODELS}/writer/build.py": _declaration().replace("reader", "writer"),
            f"{MODELS}/writer/code.py": '"""The code of a model."""\n',
            "cdk.json": _context("reader", "writer"),
        },
    ),
    Commit(name="a-changed-model", files={READER: _declaration().replace("Reads.", "Reads aloud.")}),
    Commit(
        name="a-removed-model",
        files={
            f"{MODELS}/writer/code.py": None,
            f"{MODELS}/writer/build.py": None,
            "cdk.json": _context("reader"),
        },
    ),
    Commit(
        name="later-alarms", edits={"latency_p99=Duration.millis(500)": "latency_p99=Duration.millis(2000)"}
    ),
    Commit(
        name="a-wide-permission",
        edits={
            "endpoint.grant_invoke(caller)": "caller.add_to_policy(\n"
            '    iam.PolicyStatement(actions=["sagemaker:*"], resources=["*"])\n)'
        },
    ),
    Commit(name="another-id", edits={'"Caller"': '"Application"'}),
    Commit(
        name="no-more-capture",
        edits={'captured = s3.Bucket(stack, "Captured", removal_policy=RemovalPolicy.DESTROY)\n': ""},
    ),
    Commit(name="another-name-of-the-endpoint", edits={'endpoint_name="search"': 'endpoint_name="find"'}),
    Commit(
        name="no-alarms",
        edits={
            ", alarms=alarms, scaling=scaling, models": ", scaling=scaling, models",
            "alarms = EndpointAlarms(\n": "_ = (\n",
            '    stack,\n    "Alarms",\n    endpoint=endpoint,\n    scaling=scaling,\n': "",
            "    thresholds=Thresholds(": "    Thresholds(",
        },
    ),
    Commit(name="another-stack", edits={'Stack(app, "Fleet")': 'Stack(app, "Search")'}),
)


def make_repository(folder: Path) -> list[str]:
    """Create a git repository of the sample. Returns the tags of its commits; the first one is "start"."""
    shutil.copytree(SAMPLE, folder, dirs_exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit_all(folder, "start")
    for commit in HISTORY:
        app = folder / "app.py"
        text = app.read_text()
        for old, new in commit.edits.items():
            assert old in text, f"{commit.name}: {old}"
            text = text.replace(old, new)
        app.write_text(text)
        for name, content in commit.files.items():
            path = folder / name
            if content is None:
                path.unlink()
                if not list(path.parent.iterdir()):
                    path.parent.rmdir()
            else:
                path.parent.mkdir(exist_ok=True)
                path.write_text(content)
        commit_all(folder, commit.name)
    return ["start", *(commit.name for commit in HISTORY)]


def commit_all(folder: Path, name: str) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", name)
    git(folder, "tag", name)


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True)
