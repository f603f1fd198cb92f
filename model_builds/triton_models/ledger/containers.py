"""Beliefs about how SageMaker treats the container of a multi-model endpoint, and its callers."""

from __future__ import annotations

from triton_models.ledger.belief import Belief, DecidedBy, Grade, Record

ROWS = (
    Belief(
        id="executable-bits-kept",
        belief="SageMaker unpacks an environment's `bin/python3` as an executable file",
        grade=Grade.ASSUMPTION,
        source="AWS does not document it; the rehearsal's unpacker keeps the bits",
        depends=("triton_models.environments.slim", "triton_rehearsal.hosting.unpack"),
        decided_by=DecidedBy.ACCOUNT,
        command="publish `t5_translation` for release 25.09, then invoke it",
        if_false="Pack environments as archives, which the backend unpacks itself",
    ),
    Belief(
        id="unpacker-takes-stored-blocks",
        belief="SageMaker's unpacker reads gzip streams with stored blocks",
        grade=Grade.ASSUMPTION,
        source="Every reader tested here does",
        depends=("triton_models.pack.stream",),
        decided_by=DecidedBy.ACCOUNT,
        command="any deployment: `fleet pack` only writes stored blocks for weights",
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
        no_probe="the server must crash, which also ends the other probes on the endpoint",
    ),
    Belief(
        id="error-wording",
        belief="SageMaker's error messages and status codes match AWS's documentation and Triton's source "
        "code",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html; "
        "sagemaker_server.cc of server",
        records=(
            Record(
                repository="aws/amazon-sagemaker-examples",
                at="#293",
                seen="'An error occurred (ValidationError) when calling the InvokeEndpoint operation: "
                "Endpoint … of account … not found.'",
            ),
            Record(
                repository="kshitizgupta21/triton-mme-gtc23",
                at="f593ee4edb mme.ipynb [72]",
                seen="'Failed to download model data(bucket: …, key: ….tar.gz). Please ensure that there "
                "is an object located at the URL and that the role passed to CreateModel has permissions to "
                "download the model.'",
            ),
            Record(
                repository="kshitizgupta21/triton-mme-gtc23",
                at="bf2aef49b7 mme.ipynb [69]",
                seen="'(ThrottlingException) when calling the InvokeEndpoint operation (reached max "
                "retries: 4): None', one caller after 96 cold loads in a row",
            ),
            Record(
                repository="aws/amazon-sagemaker-examples",
                at="#1311",
                seen="one caller of 100 models in a row, CPU: throttling exceptions without a pause",
            ),
            Record(
                repository="aws/amazon-sagemaker-examples",
                at="#799",
                seen="424: 'Received server error (0) from model with message \"Your invocation timed out "
                "while waiting for a response from container model. Review the latency metrics …'",
            ),
        ),
        depends=("triton_rehearsal.hosting.runtime_api", "triton_models.client.Client"),
        decided_by=DecidedBy.ACCOUNT,
        command="invoke a missing target model, a broken one, and one that is still loading",
        if_false="Correct rehearsal/triton_rehearsal/hosting/runtime_api.py",
    ),
    Belief(
        id="unknown-model-passed-on",
        belief="SageMaker passes on Triton's 400 'Request for unknown model', which can occur for an instant "
        "after a load, as ModelError with the original status 400",
        grade=Grade.ASSUMPTION,
        source="Triton's answer was seen here; AWS documents OriginalStatusCode, but not this case",
        depends=("triton_models.client.failures", "triton_models.client.Client"),
        decided_by=DecidedBy.ACCOUNT,
        command="requests to one model while others are loaded and evicted; look for client calls with more "
        "than one attempt",
        if_false="Correct _UNKNOWN_MODEL in triton_models/client/failures.py",
        no_probe="it needs hundreds of loads under traffic to occur once",
    ),
    Belief(
        id="refused-input-text",
        belief="If a loaded model refuses its input, SageMaker returns a ModelError whose OriginalMessage "
        "begins like Triton's inference errors; if a model does not load, it begins differently",
        grade=Grade.PUBLIC_RECORD,
        source="infer_request.cc and ensemble_scheduler.cc of core, pb_stub.cc of python_backend and "
        "http_server.cc of server",
        records=(
            Record(
                repository="kshitizgupta21/mme-gpu-blog",
                at="eb006e2e6f [56]",
                seen='\'Received client error (400) from primary with message "{"error":"Failed to '
                "process the request(s) for model instance '667dd5ba27e5af891896c66f93f821da_0', message: "
                "ValueError: …'",
            ),
            Record(
                repository="kshitizgupta21/fil_triton_sagemaker",
                at="cb2d4666b2 [36]",
                seen="'{\"error\":\"Unable to parse 'name': attempt to access non-existing object member "
                "'name'\"}'",
            ),
            Record(
                repository="kshitizgupta21/triton-mme-gtc23",
                at="bf2aef49b7 mme.ipynb [63]",
                seen='a model that does not load: \'{"error":"load failed for model '
                "'122dfcb914422d35cbcde6fbc1f7fc39': version 1 is at UNAVAILABLE state: …'",
            ),
        ),
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
        belief="The start script of AWS's image passes SAGEMAKER_TRITON_* on to the server, like NVIDIA's",
        grade=Grade.PUBLIC_RECORD,
        source="docker/sagemaker/serve of server at r24.12 to r26.06, read on 2026-11-22",
        records=(
            Record(
                repository="mikegc-aws/strands-decider-triton",
                at="08f8c414e1 deploy/create_endpoint.py",
                seen="SAGEMAKER_TRITON_METRICS_PORT and SAGEMAKER_TRITON_ALLOW_METRICS work with AWS's "
                "image of 25.04, whose /usr/bin/serve reads them",
            ),
        ),
        depends=("TritonServer", "triton_rehearsal.triton.container"),
        decided_by=DecidedBy.ACCOUNT,
        if_false="Pass the options as extra_arguments of TritonServer",
    ),
    Belief(
        id="safe-port-range",
        belief="SageMaker allows a container the ports 23000 to 23999, next to the one for its requests; "
        "Triton exits if another of its interfaces is outside",
        grade=Grade.PUBLIC_RECORD,
        records=(
            Record(
                repository="mikegc-aws/strands-decider-triton",
                at="08f8c414e1 deploy/create_endpoint.py",
                seen="'The server cannot listen to metrics requests at port 8002, allowed port range is "
                "[23000, 23999]', and the container dies; port 23000 serves",
            ),
            Record(
                repository="pytorch/serve",
                at="#1028",
                seen="SAGEMAKER_SAFE_PORT_RANGE=25000-25999 on a multi-model endpoint of 2021",
            ),
            Record(
                repository="pytorch/serve", at="#631", seen="SAGEMAKER_SAFE_PORT_RANGE=21000-21999 in 2021"
            ),
        ),
        depends=("server-port", "triton_models.facts.ports.SAFE_PORTS", "triton_rehearsal.triton.container"),
        decided_by=DecidedBy.ACCOUNT,
        command="a Python model that answers with SAGEMAKER_SAFE_PORT_RANGE, or the first lines of the "
        "container's log with `metrics`",
        if_false="Correct SAFE_PORTS in triton_models/facts/ports.py; until then, name ports in the range "
        "that the container's log names",
        no_probe="the probes' endpoint opens no other port",
    ),
    Belief(
        id="log-agent-creates-group",
        belief="The host's log agent first calls CreateLogGroup, and logs nothing without that permission, "
        "even if the group exists",
        grade=Grade.ASSUMPTION,
        source="AWS's examples of roles have the permission",
        depends=("triton_fleet.endpoint.execution_role",),
        decided_by=DecidedBy.ACCOUNT,
        if_false="Remove logs:CreateLogGroup from the execution role",
    ),
    Belief(
        id="target-model-refused",
        belief="A target model on a single-model endpoint is a ValidationError with the ErrorCode "
        "TARGET_MODEL_HEADER_NOT_SUPPORTED",
        grade=Grade.PUBLIC_RECORD,
        records=(
            Record(
                repository="aws/amazon-sagemaker-examples",
                at="#1216",
                seen='{"ErrorCode":"TARGET_MODEL_HEADER_NOT_SUPPORTED"}: Endpoint wireframe2code is '
                "not a multi-model endpoint and does not support target model header",
            ),
        ),
        depends=("triton_rehearsal.hosting.service",),
        decided_by=DecidedBy.ACCOUNT,
        command="invoke a `SingleModelEndpoint` with TargetModel",
        if_false="Correct the message in rehearsal/triton_rehearsal/hosting/service.py",
        no_probe="the probes' endpoint has many models",
    ),
    Belief(
        id="missing-target-model",
        belief="InvokeEndpoint without TargetModel on a multi-model endpoint is a ValidationError: 'Request "
        "<id> is missing a target model header.'",
        grade=Grade.PUBLIC_RECORD,
        records=(
            Record(
                repository="aws/sagemaker-tensorflow-serving-container",
                at="#166",
                seen="ValidationError: 'Request 186633a1-9a9f-4557-8e2b-038d9aa4bba4 is missing a target "
                "model hea', cut off there",
            ),
        ),
        depends=("triton_rehearsal.hosting.service",),
        decided_by=DecidedBy.BY_HAND,
        command="invoke the endpoint without TargetModel",
        if_false="Correct _no_target_model in rehearsal/triton_rehearsal/hosting/service.py",
    ),
    Belief(
        id="single-model-variable",
        belief="SageMaker sets SAGEMAKER_MULTI_MODEL to false in the container of a single-model endpoint",
        grade=Grade.SOURCE_READ,
        source="docker/sagemaker/serve of server at r24.12 to r26.06 compares the variable with true alone; "
        "AWS documents only the value true",
        depends=("triton_rehearsal.triton.container",),
        decided_by=DecidedBy.BY_HAND,
        command="a Python model that answers with its environment, on a `SingleModelEndpoint`",
        if_false="Correct server_environment in rehearsal/triton_rehearsal/triton/container.py",
    ),
    Belief(
        id="eviction-order",
        belief="If the container answers 507, SageMaker unloads the least recently used models first, then "
        "loads again",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/mms-container-apis.html",
        records=(
            Record(
                repository="kshitizgupta21/triton-mme-gtc23",
                at="17cf517e8a mme.ipynb [61]",
                seen="299 PyTorch models in turn through one A10G that holds 270, without an error; 'MME "
                "starts unloading LRU models', the author's words",
            ),
        ),
        depends=("triton_rehearsal.hosting.multi_model",),
        decided_by=DecidedBy.ACCOUNT,
        command="invoke more models than fit, in turn, and watch LoadedModelCount and ModelCacheHit",
        if_false="Correct rehearsal/triton_rehearsal/hosting/multi_model.py",
    ),
    Belief(
        id="routing-to-loaded",
        belief="SageMaker sends a request to an instance that has the model, spreads models that are "
        "loaded nowhere, and brings a model to another instance if more than about 8 requests for it are in "
        "progress on each",
        grade=Grade.PUBLIC_RECORD,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-endpoints.html says that some "
        "requests go to another instance if there are many; its measure is not documented, and 8 is assumed",
        records=(
            Record(
                repository="kshitizgupta21/triton-mme-gtc23",
                at="bf2aef49b7 mme.ipynb [59],[69]",
                seen="two instances: the first and the third model meet an instance without models (4.5 "
                "and 4.4 s, others 1.3 s); models that are asked for again in the same run are warm",
            ),
            Record(
                repository="kshitizgupta21/triton-mme-gtc23",
                at="b199e1b10b mme.ipynb [58]",
                seen="of six models that are asked for again within 5 to 81 other requests, all are warm: "
                "7 to 29 ms",
            ),
        ),
        depends=("triton_rehearsal.hosting.routing",),
        decided_by=DecidedBy.BY_HAND,
        command="an endpoint of two instances, one model with growing concurrency, and LoadedModelCount",
        if_false="Correct MANY in rehearsal/triton_rehearsal/hosting/routing.py",
    ),
    Belief(
        id="hung-instance-replaced",
        belief="SageMaker replaces an instance that has not answered GET /ping for half a minute",
        grade=Grade.ASSUMPTION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html gives a "
        "ping 2 seconds, and no number of failures",
        depends=("triton_rehearsal.hosting.instance_group",),
        decided_by=DecidedBy.BY_HAND,
        command="a Python model that stops its server with SIGSTOP, and the endpoint's log streams",
        if_false="Correct Watch in rehearsal/triton_rehearsal/hosting/instance_group.py",
    ),
    Belief(
        id="unload-takes-seconds",
        belief="Triton answers the unload of a model after 2 to 3 whole seconds, because it looks once per "
        "second; so each eviction delays a cold request by as much",
        grade=Grade.OBSERVED,
        source="Triton 24.10, CPU: 2.0 s for a Python model, 3.0 s for an ONNX model, seen on 2026-11-23",
        depends=("eviction-order",),
        decided_by=DecidedBy.BY_HAND,
        command="ModelUnloadingTime of an endpoint whose models push each other out",
        if_false="Expect faster cold requests on a full instance",
    ),
    Belief(
        id="disk-eviction",
        belief="If the disk of an instance is full, SageMaker removes the copies of models that are not "
        "loaded, the least recently used first",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/how-multi-mode-endpoints-work.html, which "
        "does not name the order",
        depends=("triton_rehearsal.hosting.copies",),
        decided_by=DecidedBy.BY_HAND,
        command="invoke more models than fit on the disk, in turn, and watch DiskUtilization and "
        "ModelDownloadingTime",
        if_false="Correct rehearsal/triton_rehearsal/hosting/copies.py",
    ),
    Belief(
        id="shared-memory-64-mb",
        belief="SageMaker gives a container 64 MB of /dev/shm, which cannot be changed",
        grade=Grade.PUBLIC_RECORD,
        records=(
            Record(
                repository="aws/sagemaker-python-sdk",
                at="#2801",
                seen="a Python model on ml.g4dn: 'Unable to initialize shared memory key to requested size "
                "(67108864 bytes)'",
            ),
            Record(
                repository="aws/amazon-sagemaker-examples", at="#3506", seen="no option to change the size"
            ),
        ),
        depends=("python-shared-memory", "triton_models.facts.shared_memory", "TritonServer"),
        decided_by=DecidedBy.ACCOUNT,
        command="a Python model that answers with `df /dev/shm` on an endpoint",
        if_false="Correct triton_models/facts/shared_memory.py",
    ),
    Belief(
        id="payload-limit",
        belief="InvokeEndpoint accepts 6 MB; some of AWS's pages say 25 MB. A larger request is answered "
        "with 413 'HTTP content length exceeded … bytes', or ValidationError 'Request … has oversize body.'",
        grade=Grade.AWS_DOCUMENTATION,
        source="The model of the SageMaker runtime API; deploy-model-options.html differs",
        records=(
            Record(
                repository="aws/sagemaker-python-sdk",
                at="#171",
                seen="'An error occurred (413) when calling the InvokeEndpoint operation: HTTP content "
                "length exceeded 5246976 bytes.', 2018",
            ),
            Record(
                repository="aws/sagemaker-python-sdk",
                at="#4271",
                seen="a serverless endpoint, 2023: 'ValidationError … Request {request-id} has oversize "
                "body.'",
            ),
            Record(
                repository="C24IO/SageMaker-Endpoints-Benchmark",
                at="1e0534e6a1 [26]",
                seen="4.8 MB are accepted",
            ),
        ),
        depends=("payload", "triton_models.facts.payload"),
        decided_by=DecidedBy.ACCOUNT,
        command="a request of 7 MB",
        if_false="Raise the limit in triton_models/facts/payload.py",
    ),
    Belief(
        id="not-ready-answer",
        belief="If a model is not loaded within 60 s, SageMaker returns ModelNotReadyException (429), and "
        "continues to load for up to 360 s",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html",
        depends=("triton_models.client.Client", "triton_rehearsal.hosting.runtime_api"),
        decided_by=DecidedBy.ACCOUNT,
        command="invoke a model that takes two minutes to load",
        if_false="Correct the waiting time of the client",
    ),
    Belief(
        id="object-overwritten",
        belief="An instance does not download an object again if it changes under its key",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/add-models-to-endpoint.html",
        depends=("artifact-name", "triton_rehearsal.hosting.multi_model"),
        decided_by=DecidedBy.ACCOUNT,
        command="overwrite an artifact, and invoke it",
        if_false="Nothing: objects are never overwritten",
    ),
    Belief(
        id="session-not-pinned",
        belief="No Triton container returns a session id, so nothing pins a sequence to an instance",
        grade=Grade.SOURCE_READ,
        source="src, docker and docs of server at r26.08 do not name the header",
        depends=("triton-fleet:sequences-spread",),
        decided_by=DecidedBy.ACCOUNT,
        command="InvokeEndpoint with SessionId=NEW_SESSION on a multi-model endpoint",
        if_false="Drop the warning",
    ),
)
