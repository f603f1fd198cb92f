"""The bill of materials of a build's environment: what it lists, and where it is stored."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.triton_models.publishing_aws import artifact, consistent_manifest, objects, stored
from triton_models.artifact.targets import ANY
from triton_models.repository.documents import SBOM, store
from triton_models.repository.manifest import Repository
from triton_models.repository.publish import publish
from triton_models.repository.sbom import FILES, sbom

BUILT_IN = b'{"bomFormat": "CycloneDX"}'


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all that this Python finds packages in."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    importlib.invalidate_caches()
    return tmp_path


def install(folder: Path, name: str, version: str, content: str = "x") -> None:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "INSTALLER").write_text(str(folder))
    rows = [f"{name}.py,sha256={content},1", f"{info.name}/INSTALLER,sha256={len(str(folder))},1"]
    (info / "RECORD").write_text("\n".join([*rows, f"../../bin/{name},sha256={len(str(folder))},1\n"]))


def components(document: bytes) -> dict[str, dict[str, Any]]:
    return {each["bom-ref"]: each for each in json.loads(document)["components"]}


def test_every_installed_package_is_a_component_with_a_package_url() -> None:
    listed = {each["purl"] for each in components(sbom(release="25.09")).values() if "purl" in each}
    version = importlib.metadata.version("boto3")

    assert f"pkg:pypi/boto3@{version}" in listed
    assert len(listed) > 50


def test_a_document_is_cyclonedx_1_6() -> None:
    document = json.loads(sbom(release="25.09"))

    assert {name: document[name] for name in ("bomFormat", "specVersion", "version")} == {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
    }
    refs = [each["bom-ref"] for each in document["components"]]
    assert len(set(refs)) == len(refs)
    for each in document["components"]:
        assert each["type"] in {"library", "platform"}
        assert each["name"]
        assert re.fullmatch(r"[^\s+]+", each.get("purl", "python"))
        assert {*each} <= {"type", "bom-ref", "name", "version", "purl", "properties"}
        assert all({*each} == {"name", "value"} for each in each.get("properties", ()))


def test_a_local_version_is_escaped_in_a_package_url(packages: Path) -> None:
    install(packages, "torch", "2.13.0+cpu")

    assert components(sbom(release="25.09"))["pkg:pypi/torch@2.13.0%2Bcpu"]["version"] == "2.13.0+cpu"


def test_two_installations_of_one_wheel_give_the_same_bytes(
    packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = []
    for folder in ("one", "another-place"):
        install(packages / folder, "a_package", "1.0")
        monkeypatch.setattr(sys, "path", [str(packages / folder)])
        documents.append(sbom(release="25.09"))

    assert documents[0] == documents[1]


def test_another_file_under_the_same_version_shows(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for folder in ("one", "two"):
        install(packages / folder, "a_package", "1.0", content=folder)
        monkeypatch.setattr(sys, "path", [str(packages / folder)])
        (listed,) = components(sbom(release="25.09"))["pkg:pypi/a-package@1.0"]["properties"]
        found.append((listed["name"], listed["value"]))

    assert {name for name, _ in found} == {FILES}
    assert len({value for _, value in found}) == 2


def test_of_a_package_that_is_installed_twice_the_one_that_is_imported_is_listed(
    packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(packages / "first", "a_package", "2.0")
    install(packages / "second", "a.package", "1.0")
    monkeypatch.setattr(sys, "path", [str(packages / "first"), str(packages / "second")])

    assert [ref for ref in components(sbom(release="25.09")) if "package" in ref] == [
        "pkg:pypi/a-package@2.0"
    ]


def test_a_publication_stores_it_under_its_digest_and_the_manifest_names_it(
    repository: str, s3: Any, tmp_path: Path
) -> None:
    publish([artifact(tmp_path, name="net", weights=b"1")], repository=repository, s3=s3, sbom=BUILT_IN)

    model = consistent_manifest(repository, s3).models["net"]
    recorded = model.artifacts[model.on(ANY) or ""].sbom
    assert recorded == hashlib.sha256(BUILT_IN).hexdigest()
    assert stored(f"sbom/{recorded}.cdx.json", repository, s3) == BUILT_IN


def test_publishing_it_by_hand_forgets_no_bill(repository: str, s3: Any, tmp_path: Path) -> None:
    made = artifact(tmp_path, name="net", weights=b"1")
    publish([made], repository=repository, s3=s3, sbom=BUILT_IN)
    publish([made], repository=repository, s3=s3)

    model = consistent_manifest(repository, s3).models["net"]
    assert model.artifacts[made.path.name].sbom == hashlib.sha256(BUILT_IN).hexdigest()


def test_a_document_that_is_there_already_is_kept(repository: str, s3: Any) -> None:
    where = Repository.parse(repository)

    assert store(BUILT_IN, SBOM, where, s3) == store(BUILT_IN, SBOM, where, s3)
    assert objects(repository, s3) == {SBOM.name(hashlib.sha256(BUILT_IN).hexdigest())}
