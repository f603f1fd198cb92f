"""The settings that differ, from the templates and from cdk.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from templates import of, resource

from triton_report.assembly import Assembly
from triton_report.declared import Declared, ModelChange
from triton_report.settings import model_summary, setting_changes

NO_SETTINGS = Declared(folders={}, built=(), toolkit="")


def fleet(
    instance_type: str = "ml.g5.2xlarge",
    *,
    most: int = 4,
    gpu: float = 60,
    release: str = "25.09",
    endpoint: str = "Endpoint",
) -> list[Any]:
    """Return the resources of an endpoint that scales on its GPUs."""
    name = f"fleet-{instance_type}"
    variant = {"VariantName": "All", "InstanceType": instance_type, "InitialInstanceCount": 1}
    tracking = {"CustomizedMetricSpecification": {"MetricName": "GPUUtilization"}, "TargetValue": gpu}
    return [
        resource(
            f"{endpoint}Model",
            "AWS::SageMaker::Model",
            {"PrimaryContainer": {"Image": f"1.dkr.ecr/sagemaker-tritonserver:{release}-py3"}},
        ),
        resource(f"{endpoint}Config", "AWS::SageMaker::EndpointConfig", {"ProductionVariants": [variant]}),
        resource(
            endpoint,
            "AWS::SageMaker::Endpoint",
            {"EndpointName": name, "EndpointConfigName": {"Ref": f"{endpoint}Config"}},
        ),
        resource(
            f"{endpoint}Target",
            "AWS::ApplicationAutoScaling::ScalableTarget",
            {"ResourceId": f"endpoint/{name}/variant/All", "MinCapacity": 1, "MaxCapacity": most},
        ),
        resource(
            f"{endpoint}Policy",
            "AWS::ApplicationAutoScaling::ScalingPolicy",
            {
                "ScalingTargetId": {"Ref": f"{endpoint}Target"},
                "TargetTrackingScalingPolicyConfiguration": tracking,
            },
        ),
    ]


def differing(
    before: Assembly, after: Assembly, old: Declared = NO_SETTINGS, new: Declared = NO_SETTINGS
) -> list[str]:
    return [str(each) for each in setting_changes(before, after, old, new)]


def declared(folder: Path, **settings: Any) -> Declared:
    """Return what a checkout declares whose cdk.json has these settings."""
    (folder / "cdk.json").write_text(json.dumps({"context": {"@aws-cdk/flag": True, "fleet": settings}}))
    return Declared.read(folder)


def test_settings_are_read_from_the_templates_and_the_cause_comes_before_its_consequences() -> None:
    after = of(*fleet("ml.g4dn.xlarge", most=1, gpu=50, release="26.05"))

    assert differing(of(*fleet()), of(*fleet())) == []
    assert differing(of(*fleet()), after) == [
        "instance type ml.g5.2xlarge → ml.g4dn.xlarge",
        "capacity 1 to 4 → 1",
        "GPU target 60 → 50",
        "release 25.09 → 26.05",
    ]


def test_of_several_fleets_the_one_that_differs_is_named() -> None:
    before = of(*fleet(endpoint="A"), *fleet("ml.g4dn.xlarge", endpoint="B"))
    after = of(*fleet(endpoint="A"), *fleet("ml.g4dn.xlarge", most=2, endpoint="B"))

    assert differing(before, after) == ["`B` capacity 1 to 4 → 1 to 2"]


def test_other_settings_are_read_from_cdk_json(tmp_path: Path) -> None:
    old = declared(tmp_path, models=["a"], max_capacity=4, latency_p99_ms=1000, alarm_email="", weights={})
    new = declared(
        tmp_path,
        models=["b"],
        max_capacity=8,
        latency_p99_ms=500,
        alarm_email="a@b.c",
        weights={"W": "s3://b/w"},
    )

    assert differing(of(), of(), old, new) == [
        "`latency_p99_ms` `1000` → `500`",
        "`alarm_email` nothing → `a@b.c`",
        "`weights.W` nothing → `s3://b/w`",
    ]


@pytest.mark.parametrize("models", ["*", ["*"], "reader,writer"])
def test_models_may_be_given_in_one_string(models: Any, tmp_path: Path) -> None:
    assert declared(tmp_path, models=models).builds("reader")


def test_the_models_are_no_part_of_the_toolkit(tmp_path: Path) -> None:
    starter = tmp_path / "model_builds" / "triton_models" / "cli" / "starter"
    (tmp_path / "model_builds" / "models" / "reader").mkdir(parents=True)
    starter.mkdir(parents=True)
    (starter / "models").symlink_to("../../../models")
    before = Declared.read(tmp_path)
    (tmp_path / "model_builds" / "models" / "reader" / "build.py").write_text("BUILD = 1\n")

    assert Declared.read(tmp_path).folders != before.folders
    assert Declared.read(tmp_path).toolkit == before.toolkit


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([], ""),
        (
            [ModelChange(name="churn", what="added"), ModelChange(name="bert", what="removed", built=False)],
            "models + churn - bert",
        ),
        (
            [ModelChange(name="bert", what="not built", built=False), ModelChange(name="t5", what="changed")],
            "models - bert, t5 changed",
        ),
        ([ModelChange(name="t5", what="changed")], "model t5 changed"),
        ([ModelChange(name="fraud", what="added", built=False)], "model fraud not in `models`"),
        (
            [ModelChange(name=f"m{n}", what="added") for n in range(7)],
            "models + m0, m1, m2, m3, m4 and 2 more",
        ),
    ],
)
def test_models_that_come_go_and_change_are_one_phrase(changes: list[ModelChange], said: str) -> None:
    assert model_summary(changes) == said
