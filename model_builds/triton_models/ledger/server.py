"""Beliefs about the behavior of Triton's server and its backends."""

from __future__ import annotations

from triton_models.ledger.belief import Belief, DecidedBy, Grade, Record

ROWS = (
    Belief(
        id="dali-gpu-decoding",
        belief="With jpeg_fancy_upsampling, DALI's GPU decoder keeps `dali_inception` within its tolerance "
        "of the CPU's result",
        grade=Grade.SOURCE_READ,
        source="test_fancy_upsampling in NVIDIA/DALI's dali/test/python/decoder; emulated on a CPU",
        depends=("triton_models.builds.export.dali", "outside-tolerance"),
        decided_by=DecidedBy.GPU,
        command="in the image of 25.09: `fleet build dali_inception dali_inception:tensorrt --gpu A10G -o "
        "build && fleet verify build/dali_inception build/dali_inception_tensorrt`",
        if_false="Declare a separate tolerance for the GPU",
    ),
    Belief(
        id="onnxruntime-cuda-parameters",
        belief="Four CUDA options of ONNX Runtime only take effect as parameters: onnxruntime_backend "
        "overwrites those of gpu_execution_accelerator; since 24.06 it passes all other options on",
        grade=Grade.SOURCE_READ,
        source="src/onnxruntime.cc of onnxruntime_backend at r23.12 to r26.06",
        depends=("triton_models.declare.backends",),
        decided_by=DecidedBy.BY_HAND,
        command="`fleet build resnet50 --gpu A10G` on a GPU, then the server's log with `--log-verbose=1`",
        if_false="Write them where they take effect according to the log",
    ),
    Belief(
        id="onnxruntime-tf32",
        belief="ONNX Runtime computes FP32 models in TF32 on Ampere and newer unless use_tf32 is 0, which "
        "keeps them within tolerance; before 24.06 NVIDIA_TF32_OVERRIDE=0 does the same",
        grade=Grade.SOURCE_READ,
        source="use_tf32 = 1 in OrtCUDAProviderOptionsV2; onnxruntime_backend at r23.12 to r26.06",
        depends=(
            "triton_models.declare.backends",
            "triton_models.facts.releases.Release",
            "outside-tolerance",
        ),
        decided_by=DecidedBy.GPU,
        command="in the image: `fleet build resnet50 roberta_onnx --gpu A10G -o build && "
        "fleet verify build/*`",
        if_false="Set NVIDIA_TF32_OVERRIDE=0 for builds and endpoints of every release",
    ),
    Belief(
        id="libtorch-tf32",
        belief="On Ampere and newer, LibTorch computes a traced convolution in FP32 if the trace says so, "
        "and matrix products always in FP32: the image does not set TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        grade=Grade.SOURCE_READ,
        source="aten::_convolution of PyTorch 2.13; build.py of server at r25.09",
        depends=("triton_models.builds.export.torchscript", "torchscript-export", "outside-tolerance"),
        decided_by=DecidedBy.BY_HAND,
        command="in the image: `fleet build resnet50:torchscript --gpu A10G -o build && fleet verify "
        "build/resnet50_torchscript`",
        if_false="Set NVIDIA_TF32_OVERRIDE=0 for builds and endpoints, or declare tf32=True",
    ),
    Belief(
        id="t5-on-cuda",
        belief="T5 runs with t5-small's own weights, the CUDA provider of its environment, and the way that "
        "releases since 25.08 start an environment",
        grade=Grade.SOURCE_READ,
        source="python_backend at r25.08",
        depends=("environment-wheels", "packed-environment", "triton_models.environments.slim"),
        decided_by=DecidedBy.GPU,
        command="in the image: `T5_WEIGHTS=hf://google-t5/t5-small@<commit> python3 -m triton_models build "
        "t5_translation --gpu A10G -o /tmp/build`, then load it",
        if_false="Read the server's log; pin ONNX Runtime's wheel to the release's CUDA",
    ),
    Belief(
        id="tensorflow-graph",
        belief="Release 24.09 can serve the frozen TensorFlow graph of post 001",
        grade=Grade.DOCUMENTATION,
        source="NVIDIA's release notes; 25.03 removed the TensorFlow backend",
        depends=("backend-removed",),
        decided_by=DecidedBy.BY_HAND,
        command="in the image of 24.09: `INCEPTION_GRAPH=<file> fleet build dali_inception:tensorflow "
        "--release 24.09 --gpu A10G -o build`",
        if_false="Convert the graph to ONNX",
    ),
    Belief(
        id="libtorch-loads-newer-files",
        belief="The LibTorch of each release can load a TorchScript file of PyTorch 2.13",
        grade=Grade.ASSUMPTION,
        source="PyTorch keeps its format compatible, but does not document for how long",
        depends=("triton_models.builds.export.torchscript", "torchscript-export"),
        decided_by=DecidedBy.GPU,
        command="in the image: `fleet build resnet50:torchscript -o build && fleet verify "
        "build/resnet50_torchscript`",
        if_false="Export with the PyTorch of the release",
    ),
    Belief(
        id="aoti-loads-newer-code",
        belief="The PyTorch of releases from 26.03 on runs what AOTInductor of PyTorch 2.13 compiles",
        grade=Grade.ASSUMPTION,
        source="Code of 2.13.0 runs in 2.10.0 and 2.12.0 from PyPI; tried on a CPU",
        depends=("triton_models.builds.export.compiled", "aoti-export"),
        decided_by=DecidedBy.BY_HAND,
        command="in the image of 26.04: `fleet build risk --cpu --release 26.04 -o build && fleet verify "
        "build/risk`, with the recipe of docs/bring_models.md",
        if_false="Compile with the PyTorch of the release",
    ),
    Belief(
        id="aoti-compiles-in-the-image",
        belief="A GPU build with g++ added compiles for its GPU with what PyTorch's CUDA packages bring",
        grade=Grade.ASSUMPTION,
        source="The image has clang and no g++: create_dockerfile_linux in build.py of server at r26.05",
        depends=("triton_models.builds.export.compiled", "triton_models.builds.locked", "aoti-export"),
        decided_by=DecidedBy.BY_HAND,
        command="in the image of 26.04: FLEET_GPU=A10G python3 -m triton_models.builds.locked build risk, "
        "which installs g++, then `fleet build risk --gpu A10G --release 26.04`",
        if_false="Compile in NVIDIA's PyTorch image of the release, and adopt the directory with model.pt2",
    ),
    Belief(
        id="aoti-keeps-kinds-by-address",
        belief="After an unload, the PyTorch backend may take a model for the kind that was at its address",
        grade=Grade.SOURCE_READ,
        source="model_is_pt2_map in src/libtorch.cc of pytorch_backend, r26.03 to r26.05: nothing is removed",
        depends=("aoti-and-torchscript",),
        decided_by=DecidedBy.BY_HAND,
        command="in the image of 26.04: load and unload a compiled network and a TorchScript in turn",
        if_false="Remove the rule aoti-and-torchscript",
    ),
    Belief(
        id="openvino-rounds-to-bf16",
        belief="On CPUs with BF16 instructions, the openvino backend rounds FP32 to BF16, and has no switch",
        grade=Grade.SOURCE_READ,
        source="ParseParameters in src/openvino.cc of openvino_backend; OpenVINO 2024.0 and 2026.4 do, tried",
        depends=("triton_models.declare.backends", "no-tolerance", "outside-tolerance"),
        decided_by=DecidedBy.BY_HAND,
        command="on ml.m7i and ml.m6i: the recipe of docs/bring_models.md, with the tolerance 1e-6",
        if_false="Ask for a tolerance for fp32 alone",
    ),
    Belief(
        id="openvino-joins-nothing",
        belief="The openvino backend answers only full batches; with ENABLE_BATCH_PADDING, a smaller request "
        "after a full one is written into freed memory",
        grade=Grade.SOURCE_READ,
        source="ProcessRequests and SetInputTensors in src/openvino.cc of openvino_backend (main)",
        depends=("openvino-batches",),
        decided_by=DecidedBy.BY_HAND,
        command="in the image: a network with max_batch_size 4 and padding; send 4 rows, then 1 row, in turn",
        if_false="Allow max_batch_size above 1 with ENABLE_BATCH_PADDING",
    ),
    Belief(
        id="kind-auto-placement",
        belief="KIND_AUTO puts a TensorRT encoder on the GPU, and Python steps declared for the CPU "
        "stay there",
        grade=Grade.SOURCE_READ,
        source="The instance groups of core",
        depends=("triton_models.config.pbtxt",),
        decided_by=DecidedBy.GPU,
        command="the server's log of minilm: '(GPU device 0)' and '(CPU device 0)'",
        if_false="Write the kind of every instance group",
    ),
    Belief(
        id="stub-names-checked",
        belief="Since release 25.08, the Python backend refuses names of models and instances that contain "
        "special characters of a shell",
        grade=Grade.SOURCE_READ,
        source="INVALID_CHARS in src/pb_utils.h of python_backend at r25.08 to r26.07",
        depends=("python-name",),
        decided_by=DecidedBy.BY_HAND,
        command="in the image of 25.09: load a Python model called `a!`",
        if_false="Remove the rule python-name",
    ),
    Belief(
        id="unload-stalls",
        belief="Since 25.12, an unload stalls every invocation on the instance; it did not before",
        grade=Grade.SOURCE_READ,
        source="sagemaker_server.cc of server, pull request 8571; 24.10 was run here",
        depends=("triton-fleet:unload-stall",),
        decided_by=DecidedBy.BY_HAND,
        command="in the images of 25.09 and 26.05: time requests to one model while another is unloaded",
        if_false="Correct FIRST_WITH_STALL in triton_fleet/endpoint/multi_model_checks.py",
    ),
    Belief(
        id="callers-occupy-load-threads",
        belief="A model that loads others waits in one of the server's loading threads, and at most as many "
        "models load at the same time as the front end for SageMaker has request threads",
        grade=Grade.OBSERVED,
        source="Triton 24.10: 20 loads at once end with 9 loading threads, and never with 8; "
        "sagemaker_server.cc and model_lifecycle.cc",
        depends=(
            "triton_models.facts.load_threads",
            "triton_fleet.hosting.server.TritonServer",
            "inner-model-callers",
        ),
        decided_by=DecidedBy.BY_HAND,
        command="in a newer image: load 20 artifacts of the recipe cascade at once over the SageMaker port, "
        "with --model-load-thread-count=9 and with 8",
        if_false="Correct load_threads in triton_models/facts/load_threads.py",
    ),
    Belief(
        id="connections-not-kept",
        belief="SageMaker opens a new connection to the container for each request and ping",
        grade=Grade.ASSUMPTION,
        source="Triton 24.10: a connection stays with the thread that accepted it. If that thread loads a "
        "model, requests on the connection wait, with 8 and with 64 threads; those on new ones do not",
        depends=("triton_models.facts.load_threads", "triton_fleet.hosting.server.TritonServer"),
        decided_by=DecidedBy.BY_HAND,
        command="on an endpoint with one instance: time requests for a loaded model while one loads that "
        "takes 20 seconds",
        if_false="Say at TritonServer.request_threads that a slow load stalls part of the requests",
    ),
    Belief(
        id="called-models-are-global",
        belief="Triton finds a called model by its name among all repositories, in spite of namespaces, and "
        "unloads it up to seconds after it has answered that its caller is unloaded",
        grade=Grade.OBSERVED,
        source="Triton 24.10: a version answers with the weights of another one; a caller that is loaded "
        "again within a second finds its models unloaded",
        depends=("triton_models.pack.called", "triton_models.builds.called_models", "inner-model-name"),
        decided_by=DecidedBy.BY_HAND,
        command="in a newer image: `pytest tests/models/test_called_models.py` with its server on the PATH",
        if_false="Keep the declared names in triton_models/pack/called.py",
    ),
    Belief(
        id="failed-call-ends-server",
        belief="If a model that a Python model loads does not load, the server may abort: the Python backend "
        "frees the error's text while the caller reads it",
        grade=Grade.OBSERVED,
        source="Triton 24.10 with two cores: 5 of 100 failed loads; ProcessMessage and SendMessage of "
        "python_backend, the same in its main branch of 2026-07-17; server issue 8882",
        depends=("triton_models.builds.called_models",),
        decided_by=DecidedBy.BY_HAND,
        command="in a newer image: load 100 Python models over the SageMaker port whose initialize calls "
        'pb_utils.load_model("missing")',
        if_false="Remove the limit of called models on the GPU from docs/bring_models.md",
    ),
    Belief(
        id="slash-in-target-model",
        belief="Releases 26.03 to 26.05 refuse a target model with a slash in its name",
        grade=Grade.SOURCE_READ,
        source="model_repository_manager.cc of core, commit 66f09f8",
        depends=("triton_models.facts.releases.RELEASES", "artifact-name"),
        decided_by=DecidedBy.BY_HAND,
        command="in the image of 26.05: load a model as folder/a.tar.gz over the SageMaker port",
        if_false="Nothing: keys have no folders",
    ),
    Belief(
        id="out-of-memory-texts",
        belief="The server answers 507 if an error contains one of its words about memory, and 400 "
        "otherwise, including for limits of GPU memory",
        grade=Grade.PUBLIC_RECORD,
        source="sagemaker_server.cc of server; 24.10 was run here without a GPU",
        records=(
            Record(
                repository="kshitizgupta21/triton-mme-gtc23",
                at="bf2aef49b7 mme.ipynb [63]",
                seen="with auto-complete on, a plan on a full GPU is 400 'Internal: unable to load plan "
                "file to auto complete config', nothing is evicted, and the model stays broken; the same in "
                "three more runs",
            ),
            Record(
                repository="kshitizgupta21/triton-mme-gtc23",
                at="17cf517e8a mme.ipynb [61]",
                seen="TorchScript on a full GPU: others are unloaded, and the request succeeds",
            ),
            Record(
                repository="triton-inference-server/server",
                at="#6117",
                seen="Python models on a multi-model endpoint: 'I don't always get a OOM, sometimes I get "
                'a generic "Stub is unhealthy" error\', and nothing is unloaded',
            ),
        ),
        depends=(
            "multi-model-argument",
            "bad-declaration",
            "plan-auto-complete",
            "triton_fleet.metrics.server_log",
            "triton_rehearsal.triton.contract",
        ),
        decided_by=DecidedBy.BY_HAND,
        command="fill a GPU with models over the SageMaker port, and read the status",
        if_false="Correct the rules, and the answers of the stand-ins",
    ),
    Belief(
        id="releases-after-24-10",
        belief="The rules of `fleet check` are correct for releases after 24.10",
        grade=Grade.SOURCE_READ,
        source="The branches r24.11 to r26.06 of server, core and the backends",
        depends=("triton_models.check.check", "tests.triton_models.test_check_against_triton"),
        decided_by=DecidedBy.BY_HAND,
        command="`make fuzz` with the server of a newer image on the PATH",
        if_false="Correct the rule that differs",
    ),
    Belief(
        id="server-log-lines",
        belief="Every release logs loads, failed loads and unloads with the lines that alarms and queries "
        "search for",
        grade=Grade.SOURCE_READ,
        source="model_lifecycle.cc of core and sagemaker_server.cc of server at r24.12 to r26.06, read on "
        "2026-11-22; the lines of 24.10 were seen here",
        depends=("triton_fleet.metrics.server_log", "EndpointAlarms"),
        decided_by=DecidedBy.BY_HAND,
        command="in a newer image: load, fail to load and unload a model over the SageMaker port, and read "
        "the server's log",
        if_false="Correct triton_fleet/metrics/server_log.py",
    ),
    Belief(
        id="log-terms-within-words",
        belief="A term of a filter pattern also matches within a word of an event",
        grade=Grade.ASSUMPTION,
        source="AWS documents terms as words or phrases, and shows no term within a word",
        depends=("embedded_aws.filter_pattern", "triton_fleet.metrics.server_log"),
        decided_by=DecidedBy.BY_HAND,
        command="`aws logs test-metric-filter --filter-pattern '\"failed to load\"' --log-event-messages "
        "'xfailed to loady'`",
        if_false="Compare whole words in embedded_aws/filter_pattern.py, and read the patterns again",
    ),
    Belief(
        id="weights-from-hub",
        belief="Weights with an `hf://` address can be downloaded, and fit the networks",
        grade=Grade.ASSUMPTION,
        source="The tests here download from their own hub",
        depends=("triton_models.declare.weights", "weights"),
        decided_by=DecidedBy.HUB,
        command="`ROBERTA_WEIGHTS=hf://FacebookAI/roberta-base@<commit> fleet build roberta_onnx`",
        if_false="Read the error, which names the file, its address and the expected content",
    ),
)
