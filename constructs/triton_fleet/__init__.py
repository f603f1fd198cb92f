"""Constructs that declare a fleet of Triton models behind one SageMaker GPU endpoint."""

from triton_fleet.alarm_declarations import Severity
from triton_fleet.alarms import EndpointAlarms
from triton_fleet.alias import EndpointAlias, endpoint_name_for
from triton_fleet.builds import ModelBuilds
from triton_fleet.capture import DataCapture
from triton_fleet.dashboard import EndpointDashboard
from triton_fleet.deployment import AllAtOnce, Canary, Deployment, Linear, Portion, Rolling
from triton_fleet.endpoint import MultiModelEndpoint
from triton_fleet.endpoint_base import Endpoint
from triton_fleet.image import OwnImage
from triton_fleet.imported import ImportedEndpoint
from triton_fleet.metrics import EndpointMetrics, InvocationMetrics
from triton_fleet.network import EndpointNetwork, VpcService
from triton_fleet.notifications import AlarmTopic
from triton_fleet.repository import ModelRepository
from triton_fleet.rollback import RollbackAlarms
from triton_fleet.scaling import EndpointScaling
from triton_fleet.schedules import ScheduledCapacity
from triton_fleet.server import TritonMetrics, TritonServer
from triton_fleet.single_model import SingleModelEndpoint
from triton_fleet.steps import Step, StepScaling
from triton_fleet.thresholds import Thresholds
from triton_fleet.tracking import (
    ConcurrentRequests,
    Cooldowns,
    CpuUtilization,
    GpuMemoryUtilization,
    GpuUtilization,
    InvocationsPerGpu,
    InvocationsPerInstance,
    MetricTarget,
    ModelLatency,
    Target,
)
from triton_fleet.variants import DeployedVariant, InstancePool, Routing, Variant
from triton_models.errors import FleetError

__all__ = [
    "AlarmTopic",
    "AllAtOnce",
    "Canary",
    "ConcurrentRequests",
    "Cooldowns",
    "CpuUtilization",
    "DataCapture",
    "DeployedVariant",
    "Deployment",
    "Endpoint",
    "EndpointAlarms",
    "EndpointAlias",
    "EndpointDashboard",
    "EndpointMetrics",
    "EndpointNetwork",
    "EndpointScaling",
    "FleetError",
    "GpuMemoryUtilization",
    "GpuUtilization",
    "ImportedEndpoint",
    "InstancePool",
    "InvocationMetrics",
    "InvocationsPerGpu",
    "InvocationsPerInstance",
    "Linear",
    "MetricTarget",
    "ModelBuilds",
    "ModelLatency",
    "ModelRepository",
    "MultiModelEndpoint",
    "OwnImage",
    "Portion",
    "RollbackAlarms",
    "Rolling",
    "Routing",
    "ScheduledCapacity",
    "Severity",
    "SingleModelEndpoint",
    "Step",
    "StepScaling",
    "Target",
    "Thresholds",
    "TritonMetrics",
    "TritonServer",
    "Variant",
    "VpcService",
    "endpoint_name_for",
]
