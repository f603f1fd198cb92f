"""Constructs that declare a fleet of Triton models behind one SageMaker GPU endpoint.

From the whole to the parts: `app` reads cdk.json, `fleet` wires everything, `operations` watches and scales,
`endpoint` serves, `builds` makes the models, and `parts` has what these are made with. Each refuses arguments
with a FleetError that names every mistake in them.
"""

import sys
from typing import TYPE_CHECKING

from triton_models.base.errors import FleetError
from triton_models.base.extras import imports_of
from triton_models.base.removed import refuse_removed

with imports_of("triton_fleet"):
    from triton_fleet.builds.build_runs import BuildRuns
    from triton_fleet.builds.machines import (
        BuildMachine,
        BuildMachineChoice,
        OnDemandMachine,
        ProcessingJob,
        ReservedMachines,
    )
    from triton_fleet.builds.model_build_project import ModelBuildProject
    from triton_fleet.endpoint.base import Endpoint
    from triton_fleet.endpoint.functions.automatic_builds import AutomaticBuilds
    from triton_fleet.endpoint.functions.deployment_build import DeploymentBuild
    from triton_fleet.endpoint.hosting.deployment import (
        AllAtOnce,
        Canary,
        CapacitySize,
        Deployment,
        Linear,
        Replace,
        Rolling,
    )
    from triton_fleet.endpoint.hosting.server import InferenceType, PingMode, TritonMetrics, TritonServer
    from triton_fleet.endpoint.hosting.storage import AsyncInference, DataCapture, S3Folder
    from triton_fleet.endpoint.hosting.variants import DeployedVariant, InstancePool, Routing, Variant
    from triton_fleet.endpoint.imported import ImportedEndpoint
    from triton_fleet.endpoint.multi_model import MultiModelEndpoint
    from triton_fleet.endpoint.single_model import SingleModelEndpoint
    from triton_fleet.fleet.github_role import GitHubDeployRole
    from triton_fleet.fleet.model_library import ModelLibrary
    from triton_fleet.fleet.multi_model_fleet import MultiModelFleet
    from triton_fleet.operations.alarm_declarations import Severity
    from triton_fleet.operations.alarms import EndpointAlarms
    from triton_fleet.operations.budget import MonthlyBudget
    from triton_fleet.operations.dashboard import EndpointDashboard
    from triton_fleet.operations.log_encryption import LogEncryption
    from triton_fleet.operations.notifications import AlarmTopic
    from triton_fleet.operations.rollback import GreenFleetAlarms, RollbackAlarms
    from triton_fleet.operations.scaling.alias import EndpointAlias, endpoint_name_for
    from triton_fleet.operations.scaling.endpoint_scaling import EndpointScaling
    from triton_fleet.operations.scaling.schedules import ScheduledCapacity
    from triton_fleet.operations.scaling.target import Cooldowns, ScalingTarget
    from triton_fleet.operations.scaling.tracking import (
        BacklogPerInstance,
        ConcurrentRequests,
        CpuUtilization,
        GpuMemoryUtilization,
        GpuUtilization,
        InvocationsPerGpu,
        InvocationsPerInstance,
        MetricTarget,
        ModelLatency,
    )
    from triton_fleet.operations.signals import ModelSignals
    from triton_fleet.operations.thresholds import Thresholds
    from triton_fleet.operations.warm_up import EndpointWarmUp, WarmUpRequest
    from triton_fleet.parts.arguments.uncaught import short_for_mistakes
    from triton_fleet.parts.images.image import CustomImage
    from triton_fleet.parts.metrics.published import EndpointMetrics, VariantMetrics
    from triton_fleet.parts.network.endpoint_network import EndpointNetwork, VpcService
    from triton_fleet.parts.network.placement import Placement
    from triton_fleet.parts.repository.model_repository import ModelRepository
    from triton_fleet.parts.serving import Serving

sys.excepthook = short_for_mistakes(sys.excepthook)

__all__ = [
    "AlarmTopic",
    "AllAtOnce",
    "AsyncInference",
    "AutomaticBuilds",
    "BacklogPerInstance",
    "BuildMachine",
    "BuildMachineChoice",
    "BuildRuns",
    "Canary",
    "CapacitySize",
    "ConcurrentRequests",
    "Cooldowns",
    "CpuUtilization",
    "CustomImage",
    "DataCapture",
    "DeployedVariant",
    "Deployment",
    "DeploymentBuild",
    "Endpoint",
    "EndpointAlarms",
    "EndpointAlias",
    "EndpointDashboard",
    "EndpointMetrics",
    "EndpointNetwork",
    "EndpointScaling",
    "EndpointWarmUp",
    "FleetError",
    "GitHubDeployRole",
    "GpuMemoryUtilization",
    "GpuUtilization",
    "GreenFleetAlarms",
    "ImportedEndpoint",
    "InferenceType",
    "InstancePool",
    "InvocationsPerGpu",
    "InvocationsPerInstance",
    "Linear",
    "LogEncryption",
    "MetricTarget",
    "ModelBuildProject",
    "ModelLatency",
    "ModelLibrary",
    "ModelRepository",
    "ModelSignals",
    "MonthlyBudget",
    "MultiModelEndpoint",
    "MultiModelFleet",
    "OnDemandMachine",
    "PingMode",
    "Placement",
    "ProcessingJob",
    "Replace",
    "ReservedMachines",
    "RollbackAlarms",
    "Rolling",
    "Routing",
    "S3Folder",
    "ScalingTarget",
    "ScheduledCapacity",
    "Serving",
    "Severity",
    "SingleModelEndpoint",
    "Thresholds",
    "TritonMetrics",
    "TritonServer",
    "Variant",
    "VariantMetrics",
    "VpcService",
    "WarmUpRequest",
    "endpoint_name_for",
]

if not TYPE_CHECKING:
    _TARGETS = "a target of EndpointScaling, such as MetricTarget"
    __getattr__ = refuse_removed(
        __name__,
        {
            **dict.fromkeys(("ScalingDirection", "ScalingStep", "StepScaling"), _TARGETS),
            "CoreDumps": "a property override of the endpoint's Config: see CHANGELOG.md",
        },
    )
