"""Families: many models of one network, from a list of members."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.triton_models.publishing_aws import (
    ENVIRONMENT,
    client,
    consistent_manifest,
    new_repository,
    small_aws,
)
from triton_models.artifact.pack.pack import pack
from triton_models.base.errors import FleetError
from triton_models.builds.build import build
from triton_models.builds.export.weights import tag
from triton_models.builds.inputs import find_all
from triton_models.check.survey import Survey
from triton_models.declare.reading import load_build, read_folder
from triton_models.deliver.deliver import DeliverOptions, deliver
from triton_models.deliver.steps import object_tags
from triton_models.facts.releases import release as release_named

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tenants.md").read_text()
BUILD = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[0]
PARAMETERS = """    classes: int = 2
    bias: float = 0.0
    names: list[str] = dataclasses.field(default_factory=list)
    kind: Literal["small", "large"] = "small"
"""
FORWARD = """    layers.register_forward_hook(lambda layers, given, scores: scores + member.parameters.bias)
    return layers.eval()
"""


@pytest.fixture
def models(tmp_path: Path) -> Path:
    (tmp_path / "models" / "tenants").mkdir(parents=True)
    return tmp_path / "models"


def family(
    models: Path, rows: str, *, members: str = "members.csv", model: str = "model", digest: str | None = None
) -> None:
    """Write the family of the page, with more parameters, one of which the module does not show."""
    code = BUILD.replace("    classes: int = 2\n", PARAMETERS).replace("    return layers.eval()\n", FORWARD)
    code = code.replace("import os\n", "import dataclasses\nimport os\nfrom typing import Literal\n")
    code = code.replace('os.environ.get("TENANTS", "members.csv")', repr(members))
    code = code.replace("    model=model,\n", f"    model={model},\n    digest={digest!r},\n")
    (models / "tenants" / "build.py").write_text(code)
    (models / "tenants" / members).write_text(rows)


def weights(path: Path, *, seed: int, classes: int = 2) -> str:
    import torch

    torch.manual_seed(seed)
    layers = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, classes))
    torch.save(layers.state_dict(), path)
    return str(path)


def refused(models: Path) -> list[tuple[str, str]]:
    with pytest.raises(FleetError) as error:
        read_folder("tenants", models).members("tenants")
    return [(each.rule, each.where) for each in error.value.problems]


def test_a_member_has_its_own_name_weights_and_parameters(models):
    family(models, "name,weights,classes,kind\nacme,/w/acme.pt,3,large\n")
    member = read_folder("tenants", models).members("tenants:acme")[0]
    assert (member.weights.path, member.parameters.classes, member.parameters.kind) == (
        "/w/acme.pt",
        3,
        "large",
    )
    assert load_build("tenants:acme", models).name == "tenants_acme"
    assert load_build("tenants", models).name == "tenants"


def test_a_list_of_mistakes_ends_after_twenty_and_counts_the_others(models):
    family(models, "name\n" + "".join(f"T {n}\n" for n in range(10_000)))
    with pytest.raises(FleetError) as error:
        read_folder("tenants", models).members("tenants")
    assert len(error.value.problems) == 21
    assert error.value.problems[-1].what.startswith("9980 more")


def test_a_path_in_a_list_starts_at_the_list(models):
    family(models, "name,weights\nacme,weights/acme.pt\n")
    (member,) = read_folder("tenants", models).members("tenants")
    assert Path(member.weights.path) == models / "tenants" / "weights" / "acme.pt"


def test_json_lines_have_values_of_every_type_and_csv_has_them_as_json(models):
    family(models, '{"name": "acme", "names": ["a", "b"]}\n', members="members.jsonl")
    (first,) = read_folder("tenants", models).members("tenants")
    family(models, 'name,names\nacme,"[""a"", ""b""]"\n')
    (second,) = read_folder("tenants", models).members("tenants")
    assert first.parameters.names == second.parameters.names == ["a", "b"]


@pytest.mark.parametrize(
    ("rows", "problems"),
    [
        ("name\n", [("family-members", "the members of 'tenants'")]),
        ("name\nacme\nacme\n", [("family-members", "the members of 'tenants'")]),
        ("name\na/b\n", [("family-members", "the members of 'tenants'")]),
        (
            "name,klasses,classes\nacme,3,3\nbeta,3,three\n",
            [
                ("family-members", "line 2 of the members of 'tenants'"),
                ("family-members", "line 3 of the members of 'tenants'"),
                ("family-members", "line 3 of the members of 'tenants'"),
            ],
        ),
        ("name,weights\nacme,s3://B/x\n", [("family-members", "line 2 of the members of 'tenants'")]),
    ],
    ids=["none", "a name twice", "no name of a model", "columns and types", "address"],
)
def test_every_mistake_of_a_list_is_reported_with_its_line(models, rows, problems):
    family(models, rows)
    assert refused(models) == problems


def test_a_list_with_another_digest_is_refused(models):
    family(models, "name\nacme\n", digest="0" * 64)
    assert refused(models) == [("family-changed", "the members of 'tenants'")]


def test_a_missing_list_is_refused(models):
    family(models, "name\nacme\n")
    (models / "tenants" / "members.csv").unlink()
    assert refused(models) == [("family-list", "members.csv")]


def test_a_family_in_a_family_is_refused(models):
    inner = "Family(name='inner', members='inner.csv', model=model, sample=None)"
    family(models, "name\nacme\n", model=f"lambda member: {inner}")
    with pytest.raises(FleetError) as error:
        load_build("tenants", models)
    assert [each.rule for each in error.value.problems] == ["family-members"]


def test_an_unknown_member_is_refused_with_the_likely_one(models):
    family(models, "name\nacme\n")
    with pytest.raises(FleetError, match="acme") as error:
        load_build("tenants:acne", models)
    assert [each.rule for each in error.value.problems] == ["unknown-member"]


def test_a_new_member_changes_no_other(models):
    def digests() -> dict[str, Any]:
        return {
            name: each.inputs for name, each in find_all("tenants", release="25.09", models=models).items()
        }

    family(models, "name,classes\nacme,2\nbeta,2\n")
    before = digests()
    family(models, "name,classes\nacme,2\nbeta,3\ncent,2\n")
    after = digests()
    assert sorted(after) == ["tenants:acme", "tenants:beta", "tenants:cent"]
    assert after["tenants:acme"] == before["tenants:acme"]
    assert after["tenants:beta"] != before["tenants:beta"]


def test_synthesis_checks_the_sample_and_never_reads_the_list(models):
    family(models, "name\nacme\nacme\n")
    survey = Survey(["tenants"], source=models.parent, release=release_named("25.09"), gpu=False, given={})
    assert not list(survey.problems())
    assert [each.artifact for each in survey.results()] == ["tenants"]


def deliver_family(models: Path, s3: Any, repository: str) -> Any:
    logs = models.parent / "logs"
    options = DeliverOptions(
        names=["tenants"], repository=repository, models=models, portable=True, logs=logs
    )
    return deliver(options, s3=s3)


def test_members_are_built_together_as_if_alone_and_later_only_what_is_new(models, tmp_path):
    addresses = [weights(tmp_path / f"{n}.pt", seed=n, classes=2 + n % 2) for n in range(5)]
    lines = [f"t{n},{address},{2 + n % 2}" for n, address in enumerate(addresses)]
    family(models, "\n".join(["name,weights,classes", *lines, f"odd,{addresses[0]},3", ""]))
    with small_aws() as url:
        s3 = client(url)
        repository = new_repository(s3)
        first = deliver_family(models, s3, repository)
        family(models, "\n".join(["name,weights,classes", *lines, f"late,{addresses[1]},3", ""]))
        second = deliver_family(models, s3, repository)
        published = consistent_manifest(repository, s3)
    assert first.counts() == {"published": 5, "unchanged": 0, "failed": 1}
    assert [(each.model, each.step, each.problems[0].rule) for each in first.failed] == [
        ("tenants:odd", "build", "weights")
    ]
    assert [(each.model, each.status) for each in second.results] == [("tenants:late", "published")]
    assert sorted(published.models) == ["tenants_late", *(f"tenants_t{n}" for n in range(5))]
    for number in (0, 3):  # each has the bytes of its own export
        alone = pack(build(f"tenants:t{number}", output=tmp_path, models=models), output=tmp_path)
        assert alone.name in published.models[alone.model].artifacts


def test_a_member_whose_graph_differs_in_what_its_module_does_not_show_is_exported_alone(models, tmp_path):
    lines = [f"t{n},{weights(tmp_path / f'{n}.pt', seed=n)},{n}" for n in range(2)]
    family(models, "\n".join(["name,weights,bias", *lines, ""]))
    with small_aws() as url:
        s3 = client(url)
        results = deliver_family(models, s3, new_repository(s3))
    assert results.counts() == {"published": 2, "unchanged": 0, "failed": 0}


def test_objects_and_folders_under_a_prefix_are_members(models, monkeypatch):
    family(models, "")
    code = (models / "tenants" / "build.py").read_text()
    (models / "tenants" / "build.py").write_text(code.replace("'members.csv'", "'s3://weights/tenants/'"))
    with small_aws() as url:
        for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": url}.items():
            monkeypatch.setenv(name, value)
        s3 = client(url)
        s3.create_bucket(Bucket="weights")
        keys = [f"t{n:02}.pt" for n in range(30)] + ["acme/model.safetensors", "acme/config.json"]
        for key in keys:
            s3.put_object(Bucket="weights", Key=f"tenants/{key}", Body=key.encode())
        members = read_folder("tenants", models).members("tenants")
        together = object_tags(find_all("tenants", release="25.09", models=models).values(), lambda: s3)
        addresses = [each.weights.url for each in members]
        tags = {address: (together(address), tag(address, s3)) for address in addresses}
    assert addresses == ["s3://weights/tenants/acme/", *(f"s3://weights/tenants/{key}" for key in keys[:30])]
    assert [each.name for each in members] == ["acme", *(f"t{n:02}" for n in range(30))]
    assert all(listed == asked for listed, asked in tags.values())
