"""Beliefs about GPUs, their drivers, and TensorRT."""

from __future__ import annotations

from triton_models.ledger.belief import Belief, DecidedBy, Grade, Record

_MEMORY = "aws-samples/sagemaker-mme-gpu-benchmarking"

ROWS = (
    Belief(
        id="tensorrt-plugins-reach-the-server",
        belief="Plans compiled with trtexec --staticPlugins load in a server that opens the same libraries "
        "with --backend-config=tensorrt,plugins=",
        grade=Grade.SOURCE_READ,
        source="samples/common of NVIDIA/TensorRT v8.6.1 to v11.1; src/tensorrt.cc of tensorrt_backend; "
        "docker/sagemaker/serve of server at r25.09, which passes semicolons on",
        depends=("tensorrt-plugins", "plan-plugin", "server-argument"),
        decided_by=DecidedBy.BY_HAND,
        command="in an image with the library: `fleet build NAME --gpu A10G -o build && fleet verify "
        "build/NAME`",
        if_false="Set LD_PRELOAD to the library in the image",
    ),
    Belief(
        id="gpu-in-a-forked-build",
        belief="A fork of a process that has imported PyTorch, and neither computed nor asked for a GPU, can "
        "use the GPU",
        grade=Grade.DOCUMENTATION,
        source="docs.pytorch.org/docs/stable/notes/multiprocessing.html, read 2026-11-25; on a CPU, none of "
        "the imported modules asks for CUDA, and no thread outlives the fork (PyTorch 2.13)",
        depends=("triton_models.deliver.inside.apart", "AotInductor"),
        decided_by=DecidedBy.BY_HAND,
        command="on a GPU: deliver two AotInductor models with `fleet deliver`; the second is forked from a "
        "process with the frameworks",
        if_false="Import nothing in triton_models.deliver.steps on builds for a GPU",
    ),
    Belief(
        id="tensorrt-per-release",
        belief="The image of a release has exactly the TensorRT version in the release table",
        grade=Grade.DOCUMENTATION,
        source="NVIDIA's release notes and docs/introduction/compatibility.md of server; an assumption for "
        "26.05 and 26.06, where upstream_container_version in build.py is one image earlier, 26.04 and 26.05",
        depends=("triton_models.facts.releases.RELEASES", "tensorrt-version", "plan-version"),
        decided_by=DecidedBy.GPU,
        command="`dpkg -l | grep -i libnvinfer` in the image",
        if_false="Correct the row in triton_models/facts/releases.py. Builds in the image do without: they "
        "take the version from its trtexec, and warn",
    ),
    Belief(
        id="cuda-per-release",
        belief="The image of a release has the CUDA version in the release table",
        grade=Grade.DOCUMENTATION,
        source="NVIDIA's release notes",
        depends=("triton_models.facts.releases.RELEASES", "triton_models.facts.releases.CUDA_MAJORS"),
        decided_by=DecidedBy.GPU,
        command="`echo $CUDA_VERSION` in the image",
        if_false="Correct the row in triton_models/facts/releases.py; a new major version also changes the "
        "host AMI",
    ),
    Belief(
        id="cuda-min-driver",
        belief="A host driver that is at least the release table's min_driver runs every minor version of "
        "the release's CUDA, without NVIDIA's forward compatibility",
        grade=Grade.DOCUMENTATION,
        source="CUDA toolkit release notes, table of minor version compatibility",
        depends=("triton_models.facts.releases.CUDA_MAJORS",),
        decided_by=DecidedBy.GPU,
        command="`nvidia-smi --query-gpu=name,driver_version --format=csv`, then any CUDA program",
        if_false="Raise min_driver in triton_models/facts/releases.py",
    ),
    Belief(
        id="nvidia-smi-names",
        belief="nvidia-smi's name for a GPU contains the words of its name in the GPU table, such as NVIDIA "
        "A10G",
        grade=Grade.PUBLIC_RECORD,
        source="NVML logs the same names",
        records=(
            Record(
                repository="triton-inference-server/server",
                at="#2743",
                seen="GPU 0: Tesla T4, in the server's log",
            ),
        ),
        depends=("gpu-absent", "triton_models.builds.tensorrt.machine.find_compiler"),
        decided_by=DecidedBy.GPU,
        command="`nvidia-smi --query-gpu=name --format=csv`",
        if_false="Correct the name in GPUS of triton_models/facts/instances.py, or the comparison in "
        "machine.py",
    ),
    Belief(
        id="gpu-compute-capability",
        belief="A GPU has the compute capability in the GPU table",
        grade=Grade.DOCUMENTATION,
        source="https://developer.nvidia.com/cuda-gpus",
        depends=("triton_models.facts.instances.GPUS", "gpu-too-old", "gpu-generation-supported"),
        decided_by=DecidedBy.GPU,
        command="`nvidia-smi --query-gpu=name,compute_cap --format=csv`",
        if_false="Correct the row in triton_models/facts/instances.py",
    ),
    Belief(
        id="gpu-memory",
        belief="A GPU has the memory in the GPU table, less at most 3 % that the driver keeps",
        grade=Grade.PUBLIC_RECORD,
        source="nvidia-smi in public logs; for A100, B200, B300 and RTX PRO, AWS's pages about sizes",
        records=(
            Record(repository=_MEMORY, at="9c4dae247f cv-benchmark.ipynb [22]", seen="T4: 15,109 MiB"),
            Record(repository=_MEMORY, at="ca921448d0 nlp_benchmark.ipynb [25]", seen="V100: 16,160 MiB"),
        ),
        depends=("triton_models.facts.instances.GPUS",),
        decided_by=DecidedBy.GPU,
        command="`nvidia-smi --query-gpu=name,memory.total --format=csv`",
        if_false="Correct the row in triton_models/facts/instances.py",
    ),
    Belief(
        id="gpu-memory-of-models",
        belief="A model that declares no gpu_memory_mb takes its weights and a term of its backend per "
        "instance: within a tenth for transformers in TorchScript, but ResNet-50 takes 2.8 times its "
        "weights, and a plan of a large network up to 25 MiB per row of its largest batch instead of 4",
        grade=Grade.PUBLIC_RECORD,
        records=(
            Record(
                repository=_MEMORY,
                at="9c4dae247f cv-benchmark.ipynb [26],[52]",
                seen="46 copies of ResNet-50 in TorchScript at 88.77 % of a T4, 23 of its plan at 88.72 %",
            ),
            Record(
                repository=_MEMORY,
                at="6bd92b0b8f nlp_benchmark.ipynb [29],[56]",
                seen="26 copies of BERT-base in TorchScript at 88.18 % of a T4, 42 of its plan at 89.65 %",
            ),
            Record(
                repository="kshitizgupta21/triton-mme-gtc23",
                at="17cf517e8a mme.ipynb [61]",
                seen="270 copies of a model of 49 MiB on an A10G; more evict the least recently used",
            ),
        ),
        depends=("triton_models.facts.gpu_memory", "triton_rehearsal.triton.gpu", "tests.rehearsal.test_gpu"),
        decided_by=DecidedBy.BY_HAND,
        command="`fleet verify` on a GPU prints the memory that each model took",
        if_false="Declare it: instances=Instances(gpu_memory_mb=...)",
    ),
    Belief(
        id="gpu-memory-of-server",
        belief="Of each GPU, a server takes 101 MiB and its pool; the first PyTorch model brings 660 MiB of "
        "libraries, the first plan 368, and the first ONNX network as much as PyTorch",
        grade=Grade.PUBLIC_RECORD,
        source="for ONNX Runtime an assumption: it loads cuBLAS and cuDNN, as PyTorch does",
        records=(
            Record(
                repository=_MEMORY,
                at="9c4dae247f cv-benchmark.ipynb [22],[26],[52]",
                seen="T4: 165 MiB idle; 941 besides copies in TorchScript, 533 besides plans",
            ),
            Record(
                repository=_MEMORY,
                at="6bd92b0b8f nlp_benchmark.ipynb [29],[56]",
                seen="T4: 710 MiB besides copies in TorchScript, 453 besides plans",
            ),
        ),
        depends=("triton_models.facts.gpu_memory",),
        decided_by=DecidedBy.BY_HAND,
        command="`nvidia-smi --query-gpu=memory.used --format=csv` with a server without models, and after "
        "the first model of each backend",
        if_false="Correct triton_models/facts/gpu_memory.py",
    ),
    Belief(
        id="trtexec-options",
        belief="The trtexec of a release supports every option of our command lines",
        grade=Grade.SOURCE_READ,
        source="samples/common/sampleOptions.cpp of NVIDIA/TensorRT, v8.6.1 to v11.1",
        depends=("triton_models.builds.tensorrt.options.WAYS", "tests.models.test_trtexec_options"),
        decided_by=DecidedBy.GPU,
        command="in the images of 24.01, 25.09 and 26.06: `python3 -m triton_models build bert_tensorrt "
        "--gpu A10G --release R -o /tmp/build`, in 26.06 after `python3 -m triton_models.builds.locked "
        "autocast`",
        if_false="Correct WAYS in triton_models/builds/tensorrt/options.py",
    ),
    Belief(
        id="trtexec-banner",
        belief="The first line of trtexec's output has the TensorRT version, as machine.py reads it",
        grade=Grade.SOURCE_READ,
        source="samples/common/logging.h of NVIDIA/TensorRT",
        depends=("triton_models.builds.tensorrt.machine", "tensorrt-version"),
        decided_by=DecidedBy.GPU,
        command="`/usr/src/tensorrt/bin/trtexec --help | head -1`, next to `dpkg -l | grep -i libnvinfer`",
        if_false="Correct the pattern in triton_models/builds/tensorrt/machine.py",
    ),
    Belief(
        id="plan-compiles",
        belief="A TensorRT plan of the MiniLM encoder compiles, and build.json records its version and GPU",
        grade=Grade.SOURCE_READ,
        source="trtexec's source code; a scripted trtexec here",
        records=(
            Record(
                repository="aws-samples/sagemaker-mme-gpu-benchmarking",
                at="9c4dae247f [41]",
                seen="trtexec of release 22.10 in a job on ml.g4dn.2xlarge: a plan of ResNet-50 in 2 min "
                "41 s",
            ),
            Record(
                repository="aws-samples/sagemaker-mme-gpu-benchmarking",
                at="8e29310e25 [41]",
                seen="a plan of ViT-large in 10 min 48 s",
            ),
        ),
        depends=("triton_models.builds.tensorrt.compiler.Compiler",),
        decided_by=DecidedBy.GPU,
        command="in the image: `cd model_builds && python3 -m triton_models.builds.locked build && python3 "
        "-m triton_models build minilm --gpu A10G -o /tmp/build && cat /tmp/build/minilm/build.json`",
        if_false="Read trtexec's log in /tmp/build/.logs; correct the export or the command line",
    ),
    Belief(
        id="plan-equals-reference",
        belief="The plan of the MiniLM encoder loads in the real TensorRT backend and matches the reference",
        grade=Grade.ASSUMPTION,
        source="ONNX Runtime as the stand-in for TensorRT matches it here",
        depends=("triton_rehearsal.triton.backends.tensorrt", "outside-tolerance"),
        decided_by=DecidedBy.GPU,
        command="`fleet verify /tmp/build/minilm` in the image",
        if_false="Find the first layer that differs, and correct the export, the precision or the tolerance",
    ),
    Belief(
        id="plan-header-layout",
        belief="The first bytes of a plan have its TensorRT version, as `fleet check` reads them",
        grade=Grade.SOURCE_READ,
        source="trtexec's source code",
        depends=("triton_models.artifact.plan_header", "plan-version", "not-a-plan"),
        decided_by=DecidedBy.GPU,
        command="`trtexec --onnx=m.onnx --saveEngine=m.plan`, then `fleet check` with that release and with "
        "another one, and load the plan in both",
        if_false="Correct plan_header.py, or rely only on build.json",
    ),
    Belief(
        id="plan-version-refused",
        belief="TensorRT refuses a plan of another version, including the patch number, unless the plan is "
        "version compatible",
        grade=Grade.PUBLIC_RECORD,
        source="TensorRT's documentation",
        records=(
            Record(
                repository="triton-inference-server/server",
                at="#7613",
                seen="a plan of TensorRT 10.4.0 in release 24.01: 'Version tag does not match. Note: "
                "Current Version: 236, Serialized Engine Version: 239'",
            ),
            Record(
                repository="NVIDIA/TensorRT",
                at="#3071",
                seen="'expecting library version 8.6.1.2 got 8.6.1.6, please rebuild'",
            ),
        ),
        depends=("plan-version", "plan-fits-endpoint", "artifact-fits-endpoint"),
        decided_by=DecidedBy.GPU,
        command="build a plan in the image of 25.04, and load it in the image of 25.09",
        if_false="Relax the rules to the parts of the version that matter",
    ),
    Belief(
        id="plan-capability-refused",
        belief="TensorRT refuses a plan for another compute capability, and warns if only the GPU model "
        "differs",
        grade=Grade.SOURCE_READ,
        source="TensorRT's documentation of engine compatibility; error 'incompatible device'",
        depends=("plan-gpu", "plan-fits-endpoint", "build-gpu-is-serving-gpu", "instance-pools"),
        decided_by=DecidedBy.BY_HAND,
        command="build a plan on a T4 and load it on an A10G; build one on an L4 and load it on an L40S",
        if_false="Correct the rules, and the stand-in for TensorRT",
    ),
    Belief(
        id="bert-fp16-tolerance",
        belief="The FP16 plan of `bert_tensorrt` differs from its source by at most its tolerance, 0.05",
        grade=Grade.ASSUMPTION,
        source="FP16 on a CPU: 0.007 with two seeded layers (tests.models.test_bert_tensorrt)",
        depends=("outside-tolerance",),
        decided_by=DecidedBy.GPU,
        command="`BERT_WEIGHTS=hf://google-bert/bert-base-uncased@<commit> fleet build bert_tensorrt --gpu "
        "A10G`, in the release's image",
        if_false="Keep the layers that differ in FP32, or raise the tolerance if applications accept it",
    ),
    Belief(
        id="fil-out-of-memory",
        belief="A forest that does not fit into the server's CUDA memory pool fails to load; the server "
        "answers 507 and lives on",
        grade=Grade.SOURCE_READ,
        source="triton_memory_resource.hpp and instance_initialize.hpp of rapids-triton, branch-25.08; "
        "cuda_memory_manager.cc of core, r25.09 (read 2026-11-25); fil_backend issue 259",
        depends=("fil-pool", "triton_rehearsal.triton"),
        decided_by=DecidedBy.BY_HAND,
        command="load a `Forest` on a GPU with `--cuda-memory-pool-byte-size=0:1000000`, and look at the "
        "server",
        if_false="Give forests Instances(kind='KIND_CPU'), and end the stand-in's server",
    ),
    Belief(
        id="fil-refused-ends-server",
        belief="A forest that the GPU importer of a release refuses ends the server",
        grade=Grade.SOURCE_READ,
        source="instance_initialize.hpp of rapids-triton catches its own exceptions only; backend_model.cc "
        "and thread_pool.cc of Triton, r25.09 (read 2026-11-24); fil_backend issue 265",
        depends=("fil-gpu", "forest-gpu", "triton_models.artifact.forest_head"),
        decided_by=DecidedBy.BY_HAND,
        command="load a forest of XGBoost with num_parallel_tree=2 and three classes on a GPU",
        if_false="Keep the rules: the model does not load either way",
    ),
    Belief(
        id="timing-cache-used",
        belief="A second build of a network uses TensorRT's timing cache",
        grade=Grade.SOURCE_READ,
        source="trtexec's source code: 'Loaded N bytes of timing cache'",
        depends=("triton_models.builds.tensorrt.timing_cache.TimingCache",),
        decided_by=DecidedBy.GPU,
        command="the same twice with `--timing-cache /tmp/times`, then 'Loaded N bytes' in "
        "`/tmp/build/.logs`",
        if_false="Check the file's name and TensorRT's reason in the log",
    ),
    Belief(
        id="unknown-operator-message",
        belief="trtexec's message about an unknown operator is recognized and reported as `plan-operator`",
        grade=Grade.SOURCE_READ,
        source="The parsers of onnx-tensorrt",
        depends=("plan-operator", "triton_models.builds.tensorrt.complaints"),
        decided_by=DecidedBy.GPU,
        command="build a network with an invented operator: the rule is `plan-operator`",
        if_false="Add the message to triton_models/builds/tensorrt/complaints.py",
    ),
    Belief(
        id="tensorrt-8-opset",
        belief="TensorRT 8.6, in releases before 24.05, reads ONNX up to opset 17, and reads a ReduceMean of "
        "opset 18 as one over all axes, without an error",
        grade=Grade.SOURCE_READ,
        source="docs/operators.md and builtin_op_importers.cpp of onnx-tensorrt, release/8.6-GA",
        depends=("triton_models.facts.releases.Release", "plan-opset"),
        decided_by=DecidedBy.BY_HAND,
        command="in the image of 24.03: compile a network with a ReduceMean of opset 18, and compare its "
        "answer",
        if_false="Raise the opset of TensorRT 8 in triton_models/facts/releases.py",
    ),
    Belief(
        id="tensorrt-int64",
        belief="Plans can have INT64 inputs and outputs since TensorRT 10, release 24.05; with older "
        "versions, INT64 inputs of an ONNX file become INT32",
        grade=Grade.PUBLIC_RECORD,
        records=(
            Record(
                repository="triton-inference-server/server",
                at="#7307",
                seen="'unexpected datatype TYPE_INT64 for inference input', and TYPE_INT64 supported "
                "starting from TensorRT 10",
            ),
        ),
        depends=("plan-int64", "triton_models.facts.releases.RELEASES"),
        decided_by=DecidedBy.BY_HAND,
        command="in the images of 24.03 and 24.05: compile a network with an INT64 input, and load it",
        if_false="Correct the TensorRT version in triton_models/check/release.py",
    ),
    Belief(
        id="deliver-on-gpu",
        belief="Every step of a build job works on a GPU",
        grade=Grade.ASSUMPTION,
        source="It works here without a GPU",
        depends=("triton_models.deliver.deliver",),
        decided_by=DecidedBy.BY_HAND,
        command="`fleet deliver bert_tensorrt --gpu A10G --repository URL` on a GPU",
        if_false="Read the log of the model",
    ),
    Belief(
        id="cold-start-figures",
        belief="A cold start takes 1.61 s tuned and 4.4 s untuned, and the other forms compare as in the "
        "post's table; a plan of 29 MB takes 1.3 s, and the first model of an instance 3 s more",
        grade=Grade.PUBLIC_RECORD,
        source="AWS's post about ResNet-50 on multi-model endpoints",
        records=(
            Record(
                repository="kshitizgupta21/triton-mme-gtc23",
                at="bf2aef49b7 mme.ipynb [54],[59]",
                seen="a TensorRT plan of 29 MB on ml.g5.xlarge: 178 cold requests, 1.20 s at least, median "
                "1.27 s, 90 % below 1.36 s; the first on each of two instances 4.1 to 4.5 s",
            ),
            Record(
                repository="kshitizgupta21/triton-mme-gtc23",
                at="f593ee4edb mme.ipynb [72],[73]",
                seen="a TorchScript of 47 MB: 98 cold requests, median 0.80 s, 90 % below 0.90 s, two of "
                "1.8 s; 99 warm ones 8 to 11 ms",
            ),
            Record(
                repository="aws/amazon-sagemaker-examples",
                at="#1437",
                seen="linear models on CPUs: 1.25 to 1.31 s for each cold request",
            ),
        ),
        depends=("triton_rehearsal.compare",),
        decided_by=DecidedBy.BY_HAND,
        command="publish `resnet50 resnet50:untuned resnet50:torchscript resnet50:tensorrt`, then `fleet "
        "compare resnet50 --endpoint NAME --repository URL`",
        if_false="Publish the measured times",
    ),
    Belief(
        id="every-model-verifies",
        belief="Every declared model can be built on a GPU, passes the checks, and verifies within its "
        "tolerance",
        grade=Grade.ASSUMPTION,
        source="Emulated on a CPU: TF32, chroma upsampling, FP16",
        depends=("outside-tolerance", "not-served", "build-failed"),
        decided_by=DecidedBy.GPU,
        command="in the image: `fleet build NAME... --gpu A10G -o build && fleet verify build/*`",
        if_false="The verdict names each model with its rule; `fleet verify` prints the full error",
    ),
    Belief(
        id="ampere-plus",
        belief="A plan with --hardwareCompatibilityLevel=ampere+ loads on compute capability 8.0 and newer",
        grade=Grade.SOURCE_READ,
        source="trtexec's options, v10.9 to v11.1",
        depends=(
            "triton_models.artifact.targets.ArtifactTarget",
            "plan-gpu",
            "plan-hardware",
            "plan-fits-endpoint",
        ),
        decided_by=DecidedBy.GPU,
        command="trtexec with the option on an A10G, then load the plan on an L4",
        if_false="Remove the target ampere+",
        no_probe="a plan from one GPU must be loaded on another, so a probe needs two machines",
    ),
    Belief(
        id="same-compute-capability-turing",
        belief="Since TensorRT 10.9, a plan with --hardwareCompatibilityLevel=sameComputeCapability "
        "compiles on Turing (T4), the oldest GPU for which NVIDIA offers the level",
        grade=Grade.DOCUMENTATION,
        source="TensorRT's release notes of 10.9.0 add the level; its headers offer it for 'Turing and later "
        "GPUs', read on 2026-11-22",
        depends=("triton_models.facts.tensorrt.LEVELS", "plan-hardware"),
        decided_by=DecidedBy.GPU,
        command="trtexec with the option on a T4, in the image of 25.04 or newer",
        if_false="Raise the level's first compute capability in triton_models/facts/tensorrt.py",
    ),
    Belief(
        id="nvjpeg-hardware-fancy",
        belief="The hardware decoders of A100 and H100 follow jpeg_fancy_upsampling",
        grade=Grade.ASSUMPTION,
        source="DALI's documentation names no exceptions",
        depends=("triton_models.builds.export.dali",),
        decided_by=DecidedBy.GPU,
        command="`fleet verify build/dali_inception` on a p4d or p5 instance",
        if_false="Set hw_decoder_load=0",
        no_probe="`fleet probe gpu --only decoding` shows it, but only on such a GPU",
    ),
    Belief(
        id="dali-fails-by-batch",
        belief="A file that DALI cannot decode fails alone as long as its model does not join requests, and "
        "fails its whole batch otherwise",
        grade=Grade.SOURCE_READ,
        source="ExecuteBatched in dali_model_instance.cc of dali_backend copies an error to every response; "
        "its issue 287 reports otherwise",
        depends=("triton_models.declare.models.DaliPipeline",),
        decided_by=DecidedBy.BY_HAND,
        command="in the image: serve dali_inception with DynamicBatching(max_delay_us=100_000), and send a "
        "text file together with images of one length",
        if_false="Say at DaliPipeline.batching which requests fail",
    ),
)
