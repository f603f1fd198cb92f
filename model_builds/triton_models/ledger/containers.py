"""Beliefs about how SageMaker treats the container of a multi-model endpoint, and its callers."""

from __future__ import annotations

from triton_models.ledger.belief import Belief, DecidedBy, Grade

ROWS = (
    Belief(
        id="executable-bits-kept",
        belief="SageMaker unpacks an environment's `bin/python3` as executable",
        grade=Grade.ASSUMPTION,
        source="AWS's documents do not say; the rehearsal's unpacker keeps the bits",
        depends=("triton_models.environments.slim", "triton_rehearsal.hosting.unpack"),
        decided_by=DecidedBy.ACCOUNT,
        command="`t5_translation` for release 25.09, then invoke it",
        if_false="Pack environments as archives, which the backend unpacks itself",
    ),
    Belief(
        id="unpacker-takes-stored-blocks",
        belief="SageMaker's own unpacker reads gzip streams of stored blocks",
        grade=Grade.ASSUMPTION,
        source="Every reader tried here does",
        depends=("triton_models.pack.deflate",),
        decided_by=DecidedBy.ACCOUNT,
        command="any deployment: `fleet pack` writes no others for weights",
        if_false="Compress every artifact",
    ),
    Belief(
        id="core-dumps",
        belief="The execution role may write core dumps",
        grade=Grade.AWS_DOCUMENTATION,
        source="ProductionVariantCoreDumpConfig of the SageMaker API",
        depends=("CoreDumps",),
        decided_by=DecidedBy.ACCOUNT,
        command="an endpoint with `core_dumps`, and a backend that crashes",
        if_false="Add the permission that the event names",
        no_probe="the server has to crash, which ends what the other probes on the endpoint ask",
    ),
    Belief(
        id="error-wording",
        belief="SageMaker words its errors, and chooses status codes, as AWS's documents and Triton's "
        "sources say",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html; "
        "sagemaker_server.cc of server",
        depends=("triton_rehearsal.hosting.runtime_api", "triton_models.client.Client"),
        decided_by=DecidedBy.ACCOUNT,
        command="invoke a missing target model, a broken one, and one that is still loading",
        if_false="Correct rehearsal/triton_rehearsal/hosting/runtime_api.py",
    ),
    Belief(
        id="unknown-model-passed-on",
        belief="SageMaker passes on Triton's 400 'Request for unknown model', which can follow a load for "
        "an instant, as ModelError with the original status 400",
        grade=Grade.ASSUMPTION,
        source="Triton's answer was seen here; AWS documents OriginalStatusCode, not this case",
        depends=("triton_models.client.failures", "triton_models.client.Client"),
        decided_by=DecidedBy.ACCOUNT,
        command="requests to one model while others are loaded and evicted; look for calls of the client "
        "with more than one attempt",
        if_false="Correct _UNKNOWN_MODEL in triton_models/client/failures.py",
        no_probe="it takes hundreds of loads under traffic to see it once",
    ),
    Belief(
        id="refused-input-text",
        belief="A model that is loaded and refuses its input is answered with ModelError, whose "
        "OriginalMessage begins as Triton's error of an inference does; that of a model that does not load "
        "begins otherwise",
        grade=Grade.SOURCE_READ,
        source="infer_request.cc and ensemble_scheduler.cc of core, pb_stub.cc of python_backend and "
        "http_server.cc of server; AWS does not document whether OriginalMessage is the container's own text",
        depends=(
            "triton_fleet.functions.code.warm_up.REFUSED_INPUT",
            "EndpointWarmUp",
            "triton_rehearsal.hosting.service",
        ),
        decided_by=DecidedBy.ACCOUNT,
        if_false="Correct REFUSED_INPUT in triton_fleet/functions/code/warm_up.py: a warm-up fails for a "
        "model that refuses its input, or passes for one that does not load",
    ),
    Belief(
        id="start-script-variables",
        belief="The start script of AWS's image passes SAGEMAKER_TRITON_* on to the server as NVIDIA's does",
        grade=Grade.SOURCE_READ,
        source="docker/sagemaker/serve of server at r24.12 to r26.06, read on 2026-11-22",
        depends=("TritonServer", "triton_rehearsal.triton.container"),
        decided_by=DecidedBy.ACCOUNT,
        if_false="Give the options as extra_arguments of TritonServer",
    ),
    Belief(
        id="log-agent-creates-group",
        belief="The host's log agent asks for CreateLogGroup first, and logs nothing without that "
        "permission, though the group exists",
        grade=Grade.ASSUMPTION,
        source="AWS's examples of roles have the permission",
        depends=("triton_fleet.endpoint.execution_role",),
        decided_by=DecidedBy.ACCOUNT,
        if_false="Leave logs:CreateLogGroup out of the execution role",
    ),
    Belief(
        id="eviction-order",
        belief="SageMaker unloads the least recently used models first when the container answers 507, and "
        "loads again",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/mms-container-apis.html",
        depends=("triton_rehearsal.hosting.instance",),
        decided_by=DecidedBy.ACCOUNT,
        command="more models than fit, in turns; LoadedModelCount and ModelCacheHit",
        if_false="Correct rehearsal/triton_rehearsal/hosting/instance.py",
    ),
    Belief(
        id="shared-memory-64-mb",
        belief="SageMaker gives a container 64 MB of /dev/shm, which nothing changes",
        grade=Grade.PUBLIC_RECORD,
        source="sagemaker-python-sdk#2801, amazon-sagemaker-examples#3506, server#4675",
        depends=("python-shared-memory", "triton_models.facts.shared_memory", "TritonServer"),
        decided_by=DecidedBy.ACCOUNT,
        command="a Python model that answers with `df /dev/shm` on an endpoint",
        if_false="Correct triton_models/facts/shared_memory.py",
    ),
    Belief(
        id="payload-limit",
        belief="InvokeEndpoint accepts 6 MB; some of AWS's pages say 25 MB",
        grade=Grade.AWS_DOCUMENTATION,
        source="The SageMaker runtime API's model; deploy-model-options.html differs",
        depends=("payload", "triton_models.facts.payload"),
        decided_by=DecidedBy.ACCOUNT,
        command="a request of 7 MB",
        if_false="Raise the limit in triton_models/facts/payload.py",
    ),
    Belief(
        id="not-ready-answer",
        belief="A model that is not loaded within 60 s is answered with ModelNotReadyException (429), while "
        "its load goes on for up to 360 s",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html",
        depends=("triton_models.client.Client", "triton_rehearsal.hosting.runtime_api"),
        decided_by=DecidedBy.ACCOUNT,
        command="invoke a model that takes two minutes to load",
        if_false="Correct how long the client waits",
    ),
    Belief(
        id="object-overwritten",
        belief="An instance does not fetch an object again that changes under its key",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/add-models-to-endpoint.html",
        depends=("artifact-name", "triton_rehearsal.hosting.instance"),
        decided_by=DecidedBy.ACCOUNT,
        command="overwrite an artifact, and invoke it",
        if_false="Nothing: an object is never overwritten",
    ),
    Belief(
        id="session-not-pinned",
        belief="No Triton container answers with a session id, so nothing pins a sequence to an instance",
        grade=Grade.SOURCE_READ,
        source="src, docker and docs of server at r26.08 do not name the header",
        depends=("triton-fleet:sequences-spread",),
        decided_by=DecidedBy.ACCOUNT,
        command="InvokeEndpoint with SessionId=NEW_SESSION on a multi-model endpoint",
        if_false="Drop the warning",
    ),
)
