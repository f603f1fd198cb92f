"""`fleet report --base REF`: the comment of a pull request, made on any machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from triton_models.artifact.targets import built_gpu
from triton_models.base import options as opt
from triton_models.base.errors import FleetError
from triton_models.base.outcome import progress
from triton_models.repository.manifest import ArtifactRecord
from triton_report.comparison import Comparison
from triton_report.markdown import headline, markdown
from triton_report.revisions import committed, working_tree
from triton_report.risk import meaning

_MEGABYTE = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The findings of `fleet report`, without a verdict, which is left to the reviewer."""

    comparison: Comparison
    exit_code: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The summary and the changes as one JSON document."""
        compared = self.comparison
        return {
            "summary": headline(compared),
            "base": compared.before.name,
            "head": compared.after.name,
            "settings": [asdict(each) for each in compared.settings],
            "changes": [
                {
                    "effect": change.effect.value,
                    "risk": meaning(change).risk.name.lower(),
                    "type": change.resource.type,
                    "stack": change.resource.stack,
                    "path": change.resource.path,
                    "properties": [each.path for each in change.properties],
                }
                for change in compared.changes
            ],
            "deployment_stops_for": sorted({name for each in compared.moves_without for name in each.models}),
            "permissions_widened": len(compared.permissions.widened),
            "usd_a_month": dict(zip(("floor", "ceiling"), compared.cost_difference, strict=True)),
            "models": {change.name: change.what for change in compared.models},
        }

    def lines(self) -> Iterator[str]:
        """The Markdown."""
        yield from markdown(self.comparison).splitlines()


@dataclass(frozen=True, kw_only=True)
class ReportOptions(opt.RepositoryOptions):
    """Options of `fleet report`."""

    base: str = opt.option("the commit to compare with, such as origin/main", required=True, metavar="REF")
    install_base: bool = opt.flag(
        "synthesize the base with the version of triton-fleet that it requires, which is installed"
    )
    head: str | None = opt.option("the commit to report on (default: the working tree)", metavar="REF")
    markdown: opt.File | None = opt.option("also write the report to this file")


def run(options: ReportOptions) -> Report:
    """Compare the project with a commit of it."""
    project = _project(Path.cwd())
    progress(f"synthesising {options.base}")
    base = committed(project, options.base, install=options.install_base)
    progress(f"synthesizing {options.head or 'the working tree'}")
    head = committed(project, options.head) if options.head else working_tree(project)
    published = _published(options.repository) if options.repository else None
    report = Report(comparison=Comparison(base, head, published=published))
    if options.markdown is not None:
        options.markdown.write_text(markdown(report.comparison), encoding="utf-8")
    return report


def _project(folder: Path) -> Path:
    for each in (folder, *folder.parents):
        if (each / "cdk.json").is_file():
            return each
    raise FleetError.of(
        what="the folder has no cdk.json",
        where=str(folder),
        fix="run the command in the folder of a CDK project, or in one inside it",
        rule="project",
    )


def _published(repository: str) -> Mapping[str, str]:
    from triton_models.repository.manifest import Repository
    from triton_models.repository.s3 import repository_client
    from triton_models.repository.stored_manifest import read_manifest

    manifest = read_manifest(Repository.parse(repository), s3=repository_client())
    return {
        name: "; ".join(dict.fromkeys(_artifact(model.artifacts[each]) for each in model.current.values()))
        for name, model in manifest.models.items()
    }


def _artifact(record: ArtifactRecord) -> str:
    hardware, evidence = built_gpu(record.build) or "no GPU", record.evidence
    answers = "" if evidence.status == "unknown" else f", {evidence.words()}"
    served_by = f"for {hardware} and Triton {record.build.get('release', '?')}"
    return f"{record.size / _MEGABYTE:,.1f} MB, {evidence.precision}, {served_by}{answers}"
