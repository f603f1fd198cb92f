"""Constructs that declare a fleet of Triton models behind one SageMaker GPU endpoint."""

from triton_fleet.alarms import EndpointAlarms, Severity, Thresholds
from triton_fleet.builds import ModelBuilds
from triton_fleet.dashboard import EndpointDashboard
from triton_fleet.endpoint import MultiModelEndpoint
from triton_fleet.metrics import EndpointMetrics
from triton_fleet.notifications import AlarmTopic
from triton_fleet.repository import ModelRepository
from triton_fleet.scaling import Cooldowns, EndpointScaling, GpuUtilization, InvocationsPerGpu
from triton_fleet.server import TritonServer
from triton_models.errors import FleetError

__all__ = [
    "AlarmTopic",
    "Cooldowns",
    "EndpointAlarms",
    "EndpointDashboard",
    "EndpointMetrics",
    "EndpointScaling",
    "FleetError",
    "GpuUtilization",
    "InvocationsPerGpu",
    "ModelBuilds",
    "ModelRepository",
    "MultiModelEndpoint",
    "Severity",
    "Thresholds",
    "TritonServer",
]
