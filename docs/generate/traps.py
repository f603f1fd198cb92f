"""docs/traps.md: what goes wrong in this field, how it shows in production, and what stops it here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "traps.md"

_HEAD = """\
# Traps

What goes wrong with many models on Triton and SageMaker, how it shows in production, and what stops it here.
A **rule** is an error with the id that is named, or a warning if the id begins with `triton-fleet:`, at
`cdk synth`, `fleet check`, `fleet build`, `fleet publish` or `fleet check-endpoint`, whichever sees it first.
A **default** is a setting that is right unless you change it, with the test that holds it. What cannot be
stopped is said to be so. This page is made from `docs/generate/traps.py`; tests keep the rules and the tests
that it names in step, and lay the traps for a correct fleet.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """Something that goes wrong.

    Attributes:
        name: In a few words.
        symptom: What is seen in production.
        rules: The ids of the rules that stop it.
        default: The setting that avoids it.
        test: Where that is held: path::test.
        open: Why it cannot be stopped here, and what to do.
    """

    name: str
    symptom: str
    rules: tuple[str, ...] = ()
    default: str = ""
    test: str = ""
    open: str = ""


TRAPS = (
    Trap(
        name="A plan of another GPU model",
        symptom="The endpoint is InService, and the first request for the model fails: incompatible device.",
        rules=("build-gpu-is-serving-gpu", "plan-gpu", "plan-fits-endpoint", "artifact-fits-endpoint"),
    ),
    Trap(
        name="A plan of another TensorRT, down to the patch",
        symptom="The first request fails: version tag does not match.",
        rules=("plan-version", "tensorrt-version", "plan-fits-endpoint", "artifact-fits-endpoint"),
    ),
    Trap(
        name="A backend that the release no longer has, such as TensorFlow from 25.03 on",
        symptom="Every load fails after an upgrade of the image.",
        rules=("backend-removed",),
    ),
    Trap(
        name="A backend that the image lacks, misspelt or of another image, such as vLLM",
        symptom="Every request for the model fails: unable to find backend library.",
        rules=("backend-unknown",),
    ),
    Trap(
        name="A model that another one calls, without being a step of the ensemble",
        symptom="It loads, and every request fails: model is not ready. SageMaker loads no inner models.",
        rules=("inner-model",),
    ),
    Trap(
        name="Sequence batching on an endpoint of several instances",
        symptom="A request of a sequence reaches an instance without its state, and is refused.",
        rules=("triton-fleet:sequences-spread",),
    ),
    Trap(
        name="A GPU too old for the release's TensorRT, such as the V100 from 24.10 on",
        symptom="No plan can be compiled, or none loads.",
        rules=("gpu-generation-supported", "gpu-too-old"),
    ),
    Trap(
        name="INT64 inputs of an ONNX file, which TensorRT 8 made INT32 and TensorRT 10 keeps",
        symptom="A model that loaded before an upgrade no longer does: unexpected datatype TYPE_INT64.",
        rules=("plan-int64", "network-type"),
    ),
    Trap(
        name="A host driver older than the image's CUDA",
        symptom="The endpoint fails to start, with an empty log.",
        default="Each release brings the InferenceAmiVersion whose driver it needs",
        test="tests/constructs/test_endpoint.py::test_the_host_has_the_driver_that_the_release_needs",
    ),
    Trap(
        name="An instance type that AWS does not list for GPU multi-model endpoints",
        symptom="CreateEndpointConfig may refuse it, minutes into the deployment.",
        rules=("multi-model-type", "triton-fleet:multi-model-undocumented", "multi-model-one-gpu"),
    ),
    Trap(
        name="A KMS key or a volume size for an instance with NVMe",
        symptom="The deployment fails: these instance types take neither.",
        rules=("local-storage-no-volume",),
    ),
    Trap(
        name="A slash in the target model with releases 26.03 to 26.05",
        symptom="Models under nested prefixes do not load after an upgrade.",
        default="An artifact's key has no folder",
        test="tests/triton_models/test_publish.py::test_artifacts_and_the_manifest_are_there_afterwards",
    ),
    Trap(
        name="Unloading stalls every request, from release 25.12 on",
        symptom="Latency of half a second and more for all models whenever one is evicted.",
        rules=("triton-fleet:unload-stall",),
    ),
    Trap(
        name="A response cache on a multi-model endpoint",
        symptom="One customer's model answers with another one's result: the cache has no namespaces.",
        rules=("composing-cache", "multi-model-argument"),
    ),
    Trap(
        name="A decoupled model on a multi-model endpoint",
        symptom="It loads, and every request to it fails.",
        rules=("decoupled",),
    ),
    Trap(
        name="Composing models of one name in two ensembles",
        symptom="Their metrics are mixed, and a cache or an inner call uses the wrong one.",
        rules=("composing-name-taken",),
    ),
    Trap(
        name="Two models, or a stray folder, in one archive",
        symptom="Which one is served depends on the order of a directory listing.",
        rules=("several-models", "several-ensembles", "stray-directory"),
    ),
    Trap(
        name="An archive that is damaged, or that unpackers read differently",
        symptom="Files are missing on the endpoint, or are others than those that were checked.",
        rules=(
            "archive-damaged",
            "archive-ambiguous",
            "archive-name",
            "archive-link",
            "archive-kind",
            "archive-clash",
            "archive-limit",
            "archive-trailing",
        ),
    ),
    Trap(
        name="An ensemble whose configuration is spelt so that the front end overlooks it",
        symptom="A composing model is served in its place.",
        rules=("ensemble-undetected", "ensemble-in-comment"),
    ),
    Trap(
        name="An ensemble without its version folder, which archives drop when it is empty",
        symptom="It does not load.",
        rules=("version-missing",),
    ),
    Trap(
        name="NumPy 2 in an environment for a release before 24.12",
        symptom="Answers arrive with status 200 and no content.",
        rules=("environment-numpy",),
    ),
    Trap(
        name="An environment of another Python than the release's",
        symptom="The Python model does not start.",
        rules=("environment-python", "packed-environment", "package-python", "environment-wheel"),
    ),
    Trap(
        name="An environment as an archive inside the artifact",
        symptom="Every load unpacks it into /tmp, and nothing removes it: the disk fills up.",
        default="Environments lie unpacked in the artifact",
        test="tests/models/test_environments.py",
    ),
    Trap(
        name="SageMaker's 64 MB of shared memory, of which each Python instance takes 16 by default",
        symptom="The fifth Python model is refused as out of memory, and SageMaker unloads others for it.",
        rules=("python-shared-memory",),
        default="1 MB for each instance",
        test="tests/constructs/test_endpoint.py::test_the_container_is_started_for_many_models",
    ),
    Trap(
        name="One failed load makes the whole endpoint unhealthy",
        symptom="The health check fails while a model loads, or after one could not be.",
        default="The server answers the health check while it lives",
        test="tests/constructs/test_endpoint.py::test_the_container_is_started_for_many_models",
    ),
    Trap(
        name="Verbose logging, which the image turns on",
        symptom="Kilobytes of log for each request, and half the throughput of small models.",
        default="Off",
        test="tests/constructs/test_endpoint.py::test_the_container_is_started_for_many_models",
    ),
    Trap(
        name="Auto-completion of configurations",
        symptom="A Python model takes 1.4 s to load in place of 0.16.",
        default="Off: configurations are complete",
        test="tests/constructs/test_server_options.py::test_auto_complete_can_be_left_to_triton",
    ),
    Trap(
        name="A limit of GPU memory for loading",
        symptom="A full GPU is answered with 400, not 507: SageMaker evicts nothing, and the load fails.",
        rules=("multi-model-argument",),
        default="Not set",
        test="tests/constructs/test_server_options.py::test_the_defaults_have_no_problem",
    ),
    Trap(
        name="OOM as a part of a model's name, such as BLOOM",
        symptom="Any error of that model counts as out of memory, and others are unloaded for it.",
        rules=("bad-declaration",),
    ),
    Trap(
        name="A scaling target above what the metric can reach: GPUUtilization goes to 100 for each GPU",
        symptom="The fleet never grows.",
        rules=("scaling-target-reachable", "scaling-target-hardware"),
    ),
    Trap(
        name="An alarm on a metric or a dimension that does not exist",
        symptom="It stays silent for ever.",
        rules=("unknown-metric",),
        default="Metrics carry the dimensions that each of them is published with",
        test="tests/constructs/test_metric_facts.py",
    ),
    Trap(
        name="Deployment settings beyond the guardrails' limits",
        symptom="UpdateEndpoint refuses them, after everything before has been deployed.",
        rules=("deployment-times", "deployment-portion", "rolling-one-variant", "rollback-alarms"),
    ),
    Trap(
        name="Requests above SageMaker's 6 MB",
        symptom="413, or a connection that ends.",
        rules=("payload",),
    ),
    Trap(
        name="An object that is overwritten under its name",
        symptom="Instances serve the old and the new model side by side, for as long as they live.",
        rules=("artifact-name", "artifact-changed"),
        default="An artifact is named after its content, and written only where nothing is",
        test="tests/triton_models/test_publish.py::"
        "test_an_object_of_that_name_with_other_content_is_not_overwritten",
    ),
    Trap(
        name="boto3 does not retry a model that is not ready (429)",
        symptom="The first requests to a cold model fail since botocore 1.44.",
        default="The client waits, up to SageMaker's own limit",
        test="tests/triton_models/test_client.py::test_a_model_that_is_not_ready_is_asked_again_after_growing_waits",
    ),
    Trap(
        name="Triton forgets a model for an instant after its load, while another one is loaded or unloaded",
        symptom="Up to 0.5 % of requests fail with 400 while models are evicted: Request for unknown model.",
        default="The client sends such a request again",
        test="tests/triton_models/test_client_faults.py::test_a_fault_that_passes_is_sent_again",
    ),
    Trap(
        name="A service that hangs, such as S3 or Systems Manager",
        symptom="Every thread of the application waits for it.",
        default="The client looks names up in the background, and each call has a deadline",
        test="tests/triton_models/test_client_faults.py::"
        "test_a_look_up_that_hangs_stops_no_caller_that_knows_an_answer",
    ),
    Trap(
        name="A binary content type with capitals, or with a space after its semicolon",
        symptom="Triton takes the body for JSON, and refuses the request with 400.",
        default="The client spells it as Triton reads it",
        test="tests/rehearsal/test_hosting.py::test_our_client_asks_a_model_by_its_name",
    ),
    Trap(
        name="A request that ends Triton: 200 KB of `[`, seen with release 24.10",
        symptom="The server ends, and with it all its models. A binary input of the shape [1, 2^62+2] ends a "
        "Python model for good.",
        open="Triton's own faults; SageMaker restarts the container. The client sends no such request: do "
        "not pass on bodies that others have written.",
    ),
    Trap(
        name="Another instance type under auto scaling",
        symptom="The deployment fails and rolls back: the scaling target has to go first.",
        rules=("alias-endpoint-name",),
        default="The type is in the endpoint's name, and an alias moves",
        test="tests/rehearsal/test_instance_type_change.py::test_with_an_alias_it_is_an_ordinary_deployment",
    ),
    Trap(
        name="A deployment throws the fleet back to its first number of instances",
        symptom="An hour of scaling is undone in the middle of the traffic.",
        default="RetainAllVariantProperties",
        test="tests/constructs/test_endpoint.py::"
        "test_a_deployment_keeps_what_auto_scaling_has_made_of_the_fleet",
    ),
    Trap(
        name="A fixed name of an endpoint configuration",
        symptom="It cannot be replaced, so the endpoint is never updated.",
        default="Only the endpoint has a name",
        test="tests/constructs/test_endpoint.py::"
        "test_model_and_configuration_can_be_replaced_because_they_have_no_name",
    ),
    Trap(
        name="A folder constructs/ that becomes a package",
        symptom="The CDK fails with an error that does not say why.",
        default="It is not a package",
        test="tests/constructs/test_shadowing.py::test_the_folder_is_no_package",
    ),
    Trap(
        name="A CUDA option of ONNX Runtime in the place that its documentation names",
        symptom="It has no effect: defaults overwrite it.",
        default="Written as parameters, which take effect",
        test="tests/models/test_declared_models.py",
    ),
    Trap(
        name="Service quotas of 0 in a new account",
        symptom="ResourceLimitExceeded, for the endpoint or for its builds.",
        open="Quotas belong to the account. `fleet check-quotas` asks for them before the deployment, and "
        "says how to raise each.",
    ),
    Trap(
        name="No capacity of an instance type in the region",
        symptom="The fleet does not grow; a new endpoint fails after half an hour.",
        open="AWS's hardware. The alarm NoCapacity fires; instance pools and capacity reservations help.",
    ),
    Trap(
        name="An endpoint that hangs in Creating",
        symptom="It can be neither used nor deleted for up to a day.",
        open="SageMaker's. A container that does not start is the usual reason; what stops that is above.",
    ),
)


def page() -> str:
    """The page as it should be."""
    return "\n".join(
        [_HEAD, "| trap | in production | what stops it here |", "|---|---|---|", *map(_row, TRAPS), ""]
    )


def _row(trap: Trap) -> str:
    return f"| {trap.name} | {trap.symptom} | {' '.join(_stops(trap))} |"


def _stops(trap: Trap) -> Iterator[str]:
    if trap.rules:
        named = ", ".join(f"`{rule}`" for rule in trap.rules)
        yield f"**{'Rule' if len(trap.rules) == 1 else 'Rules'}** {named}."
    if trap.default:
        path, _, test = trap.test.partition("::")
        words = test.removeprefix("test_").replace("_", " ") or Path(path).stem
        yield f"**Default**: {trap.default} ([{words}](../{path}))."
    if trap.open:
        yield f"**Cannot be stopped here.** {trap.open}"
