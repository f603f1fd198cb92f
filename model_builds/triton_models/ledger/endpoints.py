"""Beliefs about SageMaker's endpoints: valid configurations, hosts, and updates."""

from __future__ import annotations

from triton_models.ledger.belief import Belief, DecidedBy, Grade, Record

ROWS = (
    Belief(
        id="model-on-empty-prefix",
        belief="CreateModel accepts a multi-model repository whose prefix has no object yet",
        grade=Grade.ASSUMPTION,
        source="AWS does not document it; sagemaker-python-sdk#1144 creates an object to be safe",
        depends=("ModelRepository", "EndpointStart"),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all` in a new account",
        if_false="Nothing breaks: EndpointStart puts an empty manifest under the prefix first",
    ),
    Belief(
        id="stacks-deploy",
        belief="The stacks can be deployed to an account",
        grade=Grade.ASSUMPTION,
        source="The embedded AWS, cfn-lint, botocore's models and cdk-nag accept them",
        depends=("stacks.models", "stacks.inference"),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all`",
        if_false="Deploy with --no-rollback, and read the failed resource's reason",
        no_probe="the app's own stacks must be deployed, which `fleet probe` does not have",
    ),
    Belief(
        id="ami-with-multi-model",
        belief="A GPU multi-model endpoint accepts InferenceAmiVersion, and release 25.09 starts on it",
        grade=Grade.ASSUMPTION,
        source="AWS's documentation neither lists nor excludes it for multi-model endpoints",
        depends=("triton_models.facts.host_amis", "MultiModelEndpoint", "host-ami"),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all`; then `aws sagemaker describe-endpoint --endpoint-name "
        "TritonFleet-g5-2xlarge-25-09` says InService",
        if_false="Use release 25.04, whose AMI is gpu-3-1, or name another one with inference_ami",
    ),
    Belief(
        id="ami-fits-instance-family",
        belief="CreateEndpointConfig accepts al2023-ami-sagemaker-inference-gpu-4-1 and "
        "al2-ami-sagemaker-inference-gpu-3-1 for ml.g5 and ml.g4dn with one GPU",
        grade=Grade.PUBLIC_RECORD,
        source="REPORTS in triton_models/facts/host_amis.py",
        records=(
            Record(
                repository="autogluon/autogluon-cloud",
                at="#270",
                seen="gpu-4-1 for real-time endpoints on g4dn, g5 and g6 with images of CUDA 13; its "
                "billed tests were not run",
            ),
            Record(
                repository="aws/deep-learning-containers",
                at="2ec0bc190f",
                seen="ml.g5.12xlarge, with four GPUs, is refused: 'Invalid combination'",
            ),
        ),
        depends=("triton_models.facts.host_amis.REPORTS", "host-ami"),
        decided_by=DecidedBy.ACCOUNT,
        command="an endpoint of each pair; CreateEndpointConfig answers 'Invalid combination' otherwise",
        if_false="Name another AMI with inference_ami, or use release 25.04 with gpu-3-1",
    ),
    Belief(
        id="ami-driver",
        belief="The AMI gpu-3-1 has driver 550 and CUDA 12.4; gpu-4-1 has driver 580 and CUDA 13.0; "
        "without an AMI, a host of g4dn or g5 has driver 470 or 535, whichever it is given",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/inference-gpu-drivers.html, which names "
        "470 for the default. 550.163.01 was read on ml.g4dn.xlarge with gpu-3-1, in a script of an unknown "
        "repository",
        records=(
            Record(
                repository="mikegc-aws/strands-decider-triton",
                at="08f8c414e1 deploy/create_endpoint.py",
                seen="hosts of ml.g5 without an AMI, two in a row: driver 535.309.01, then 470.256.02; "
                "'which host you get is a lottery'",
            ),
            Record(
                repository="aws/deep-learning-containers",
                at="#4990",
                seen="470.256.02 on a GPU multi-model endpoint without an AMI, 2025-07",
            ),
        ),
        depends=("triton_models.facts.host_amis.HOST_AMIS", "triton_models.facts.releases.CUDA_MAJORS"),
        decided_by=DecidedBy.ACCOUNT,
        command="a Python model that runs `nvidia-smi --query-gpu=driver_version --format=csv` on an "
        "endpoint of each",
        if_false="Correct HOST_AMIS in triton_models/facts/host_amis.py",
    ),
    Belief(
        id="ami-too-old-symptom",
        belief="If the host's driver is too old for the container's CUDA, the server dies with error 803, "
        "or starts without a GPU, so that GPU models are UNAVAILABLE and a single-model endpoint fails when "
        "its start times out; the container's log names both versions. If the AMI is for another CUDA major "
        "version, it may also hang in Creating without a log",
        grade=Grade.PUBLIC_RECORD,
        records=(
            Record(
                repository="aws/deep-learning-containers",
                at="#4990",
                seen="release 25.04 on a multi-model endpoint: 'built for NVIDIA Driver Release 575.51 or "
                "later, but version 470.256.02 was detected and compatibility mode is UNAVAILABLE'",
            ),
            Record(
                repository="mikegc-aws/strands-decider-triton",
                at="08f8c414e1 deploy/create_endpoint.py",
                seen="release 26.05 on ml.g5 with driver 535.309.01: error 803; release 25.04 with "
                "470.256.02: 'has kind KIND_GPU but no GPUs are available', and after 30 minutes 'did not "
                "pass the ping health check'",
            ),
            Record(
                repository="aws/deep-learning-containers",
                at="#6187",
                seen="a container of CUDA 12.9 under gpu-4-1: stuck in Creating, without logs",
            ),
        ),
        depends=("triton_models.facts.host_amis", "host-ami"),
        decided_by=DecidedBy.BY_HAND,
        command="an endpoint of release 25.09 on the default AMI",
        if_false="Correct the symptom in docs/traps.md and in triton_fleet/endpoint/instance_checks.py",
    ),
    Belief(
        id="cuda-12-on-newest-ami",
        belief="A container with CUDA 12 does not start under al2023-ami-sagemaker-inference-gpu-4-1",
        grade=Grade.PUBLIC_RECORD,
        source="The records differ. sagemaker-genai-hosting-examples, FLUX.2 on ml.g7e: the AMI is needed "
        "'for CUDA 12.9 compatibility'. NVIDIA's CUDA compatibility guide: drivers from 580 on run CUDA 12",
        records=(
            Record(
                repository="aws/deep-learning-containers",
                at="#6187",
                seen="'The CU13 AMI doesn't work with our CUDA 12.9 ray container — endpoints stuck in "
                "`Creating` with no CloudWatch logs'",
            ),
        ),
        depends=("host-ami", "triton_models.facts.host_amis.HOST_AMIS"),
        decided_by=DecidedBy.ACCOUNT,
        command="an endpoint of release 25.04 with `inference_ami` al2023-ami-sagemaker-inference-gpu-4-1",
        if_false="Accept an AMI with a newer CUDA major version in the rule host-ami",
        no_probe="the expected result is an endpoint that hangs in Creating, cannot be deleted, and is "
        "billed",
    ),
    Belief(
        id="gpu-ami-on-cpu-refused",
        belief="SageMaker refuses a host image for GPUs on an instance type without a GPU",
        grade=Grade.ASSUMPTION,
        source="AWS lists these images only for GPU families",
        depends=("host-ami",),
        decided_by=DecidedBy.ACCOUNT,
        if_false="Remove that part of the rule host-ami",
    ),
    Belief(
        id="multi-model-instance-types",
        belief="CreateEndpointConfig accepts multi-model endpoints on every size of ml.g4dn and ml.g5 with "
        "one GPU, and on CPU types",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-support.html",
        records=(
            Record(
                repository="kshitizgupta21/triton-mme-gtc23",
                at="f593ee4edb mme.ipynb [41]",
                seen="a multi-model endpoint on ml.g5.xlarge is InService",
            ),
            Record(
                repository="aws-samples/sagemaker-mme-gpu-benchmarking",
                at="9c4dae247f [19]",
                seen="one on ml.g4dn.2xlarge is InService",
            ),
            Record(
                repository="aws/sagemaker-pytorch-inference-toolkit",
                at="#129",
                seen="before GPUs were supported: 'MultiModel mode is not supported for instance type "
                "ml.g4dn.xlarge.'",
            ),
        ),
        depends=("multi-model-type", "multi-model-one-gpu", "triton_models.facts.instances.INSTANCE_TYPES"),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all -c instance_type=ml.g4dn.xlarge`",
        if_false="Correct the table in triton_models/facts/instances.py",
    ),
    Belief(
        id="multi-model-undocumented-types",
        belief="CreateEndpointConfig may accept a multi-model endpoint on ml.g6 or ml.g6e, which AWS does "
        "not list",
        grade=Grade.ASSUMPTION,
        source="AWS's list ends at g5; sagemaker-python-sdk#1323 shows that the service has a list",
        records=(
            Record(
                repository="mikegc-aws/strands-decider-triton",
                at="08f8c414e1 README.md",
                seen="release 25.04 is InService as a single-model endpoint on ml.g6.xlarge and "
                "ml.g6e.xlarge, without InferenceAmiVersion; no record of a multi-model endpoint there",
            ),
        ),
        depends=("triton-fleet:multi-model-undocumented",),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all -c instance_type=ml.g6.2xlarge`",
        if_false="Make the warning an error for these types",
    ),
    Belief(
        id="g7-driver",
        belief="ml.g7 needs driver 595, which no current AMI has, and serves with the host that SageMaker "
        "chooses",
        grade=Grade.PUBLIC_RECORD,
        source="NVIDIA/aicr#2743",
        records=(
            Record(
                repository="awslabs/amazon-eks-ami",
                at="#2747",
                seen="'G7 instances (RTX PRO 4500 / Blackwell) require NVIDIA driver 595+'",
            ),
        ),
        depends=("triton_models.facts.host_amis.OLDEST_DRIVERS", "host-ami"),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all -c instance_type=ml.g7.2xlarge`",
        if_false="Add the AMI that works to the table",
        no_probe="it needs a separate quota, and an endpoint for several USD per hour",
    ),
    Belief(
        id="start-takes-twelve-minutes",
        belief="The image decides when a GPU instance serves: 4 to 6 minutes after the request with "
        "releases up to 23.02, 12 to 15 with an image of 20 GB compressed",
        grade=Grade.PUBLIC_RECORD,
        records=(
            Record(
                repository="mikegc-aws/strands-decider-triton",
                at="08f8c414e1 README.md",
                seen="ml.g6.xlarge, an image of 20.6 GB: about 12 minutes to InService, most of it the "
                "pull; the container starts in 25 s with a warm cache; ml.g6e.16xlarge in about 8 minutes",
            ),
            Record(
                repository="triton-inference-server/server",
                at="#6117",
                seen="GPU multi-model endpoints in 2024: '15 minute deploys'",
            ),
            Record(
                repository="kshitizgupta21/triton-mme-gtc23",
                at="f593ee4edb mme.ipynb [41]",
                seen="release 22.12: InService after 6 polls of 60 s; after 5 or 6 in seven more versions "
                "of the notebook",
            ),
            Record(
                repository="aws-samples/sagemaker-mme-gpu-benchmarking",
                at="9c4dae247f [19],[47]",
                seen="release 22.10: after 6 polls of 60 s; after 5 or 6 in ten more versions",
            ),
            Record(
                repository="kshitizgupta21/mme-gpu-blog",
                at="410de0502b mme_gpu.ipynb [45]",
                seen="release 22.09: once after 9 polls of 60 s; after 4 or 5 in five other versions",
            ),
            Record(
                repository="aws-samples/sagemaker-mme-gpu-benchmarking",
                at="9c4dae247f [41]",
                seen="a training job on ml.g4dn.2xlarge pulled the image of 22.10 in 2 min 46 s",
            ),
            Record(
                repository="RamVegiraju/SageMaker-Deployment",
                at="b5cd1f0458 XGBoost-Abalone.ipynb [19]",
                seen="XGBoost on ml.c5d.18xlarge: InService after 2 min 30 s",
            ),
        ),
        depends=("Cooldowns", "EndpointScaling", "embedded_aws.moto_gaps.capacity.ARRIVALS"),
        decided_by=DecidedBy.ACCOUNT,
        command="the time from CreateEndpoint to InService of `npx cdk deploy --all`",
        if_false="Correct the default cooldown after scale-out",
    ),
    Belief(
        id="lack-of-capacity",
        belief="SageMaker reports a lack of capacity about half an hour after the request for an instance: "
        "'Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error. "
        "Please retry using a different ML instance type or after some time.'",
        grade=Grade.PUBLIC_RECORD,
        records=(
            Record(
                repository="mikegc-aws/strands-decider-triton",
                at="08f8c414e1 deploy/create_endpoint.py",
                seen="InsufficientInstanceCapacity six times in a row on ml.g6 and ml.g6e, after about 31 "
                "minutes each",
            ),
            Record(
                repository="mikegc-aws/strands-decider-triton",
                at="08f8c414e1 README.md",
                seen="one variant with three instance pools got ml.g6e.4xlarge at once, after three "
                "attempts with one type had failed; a sixth pool is a ValidationException",
            ),
        ),
        depends=("triton_fleet.hosting.deployment", "Deployment"),
        decided_by=DecidedBy.BY_HAND,
        command="the time from CreateEndpoint to Failed, in a region that lacks the instance type",
        if_false="Correct the default of maximum_time in triton_fleet/hosting/deployment.py",
    ),
    Belief(
        id="endpoint-arn-lower-case",
        belief="The name in an endpoint's ARN is in lower case, and IAM compares with that",
        grade=Grade.PUBLIC_RECORD,
        source="philschmid/cdk-samples issue 2",
        records=(
            Record(
                repository="aws/amazon-sagemaker-examples",
                at="#293",
                seen="the endpoint DEMO-imageclassification-ep--2018-06-24-19-59-29 has the ARN "
                "endpoint/demo-imageclassification-ep--2018-06-24-19-59-29",
            ),
        ),
        depends=("ImportedEndpoint", "EndpointAlias"),
        decided_by=DecidedBy.ACCOUNT,
        if_false="Keep the case of names in triton_fleet/endpoint/imported.py and scaling/alias.py",
    ),
    Belief(
        id="network-services",
        belief="Image pulls, logs and metrics of a hosted model go through the VPC that its endpoint is "
        "attached to",
        grade=Grade.ASSUMPTION,
        source="AWS documents it for downloads of models, but not for the rest",
        depends=("EndpointNetwork", "triton_fleet.network.endpoint_network.VpcService"),
        decided_by=DecidedBy.ACCOUNT,
        command="an endpoint in isolated subnets with create_vpc_endpoints=[VpcService.S3]: see if it starts",
        if_false="Create only the VPC endpoint for S3: each of the others is billed per hour",
        no_probe="a VPC with subnets, routes and VPC endpoints is more than a probe should create",
    ),
    Belief(
        id="instance-type-change",
        belief="A changed instance_type is deployed without interruption: first the new endpoint, then its "
        "scaling, then the alias, and finally the removal of the old endpoint",
        grade=Grade.ASSUMPTION,
        source="CloudFormation's order of creation and removal; the embedded AWS shows it",
        depends=("EndpointAlias", "tests.rehearsal.test_instance_type_change"),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all -c instance_type=ml.g5.4xlarge` under load",
        if_false="Deploy the new type next to the old one as a second stack, and move the alias by hand",
        no_probe="the app's own stacks must be deployed, with two endpoints",
    ),
    Belief(
        id="old-endpoint-deletion",
        belief="Requests that are in progress when the old endpoint is deleted are still answered",
        grade=Grade.ASSUMPTION,
        source="AWS does not document it",
        depends=("EndpointAlias",),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all -c instance_type=ml.g5.4xlarge` under load",
        if_false="Keep the old endpoint for a while after the alias has moved",
    ),
    Belief(
        id="update-with-scaling-refused",
        belief="UpdateEndpoint refuses to change the instance type of a variant that is a registered "
        "scalable target",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html; aws-cdk#29626",
        depends=("alias-endpoint-name", "EndpointAlias"),
        decided_by=DecidedBy.ACCOUNT,
        command="a fixed endpoint name and `npx cdk deploy --all -c instance_type=ml.g5.4xlarge`",
        if_false="Nothing: the alias works in either case",
    ),
    Belief(
        id="bake-announcement",
        belief="SageMaker sends an event for each bake, with the endpoint's name as it was given, and the "
        "warm-up loads the models",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html",
        depends=("EndpointWarmUp",),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws logs tail` of the warm-up's log group, after an update",
        if_false="Correct the event pattern of the warm-up",
    ),
    Belief(
        id="artifact-wait",
        belief="An hour's wait for an artifact works across its five invocations",
        grade=Grade.SOURCE_READ,
        source="CDK's provider framework",
        depends=("ArtifactReady",),
        decided_by=DecidedBy.ACCOUNT,
        command="deploy a `SingleModelEndpoint`, and publish its artifact after 50 minutes",
        if_false="Shorten the wait to the limit of one invocation",
        no_probe="it takes an hour",
    ),
    Belief(
        id="async-to-zero",
        belief="An asynchronous endpoint scales to zero instances and back; in a VPC, the restricted S3 "
        "endpoint allows its requests and answers",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html",
        depends=("AsyncInference", "EndpointNetwork"),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws sagemaker-runtime invoke-endpoint-async`, then `aws application-autoscaling "
        "describe-scaling-activities --service-namespace sagemaker`",
        if_false="Keep one instance; widen the S3 endpoint's policy",
        no_probe="it needs a VPC, and a separate endpoint that is idle until it scales in",
    ),
    Belief(
        id="undocumented-features",
        belief="A multi-model endpoint accepts detailed observability and least-outstanding-requests routing",
        grade=Grade.ASSUMPTION,
        source="AWS does not document it",
        depends=("Routing", "multi-model-excludes"),
        decided_by=DecidedBy.ACCOUNT,
        command="a deployment with each",
        if_false="Refuse the option that SageMaker refuses",
    ),
    Belief(
        id="instance-pools-single-model",
        belief="Instance pools only work with single-model endpoints and inference components",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-heterogeneous.html",
        depends=("InstancePool", "instance-pools"),
        decided_by=DecidedBy.ACCOUNT,
        command="a multi-model endpoint with instance_pools",
        if_false="Allow them without opting in",
    ),
    Belief(
        id="data-capture-excluded",
        belief="SageMaker refuses data capture, shadow variants and several variants on multi-model "
        "endpoints",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/model-deploy-feature-matrix.html",
        depends=("multi-model-excludes", "DataCapture"),
        decided_by=DecidedBy.ACCOUNT,
        command="CreateEndpointConfig with each",
        if_false="Allow the options that SageMaker accepts",
    ),
    Belief(
        id="alarms-read-with-execution-role",
        belief="SageMaker reads the alarms of an update with the endpoint's execution role, or needs no "
        "permission at all",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-configuration.html "
        "requires cloudwatch:DescribeAlarms for 'your IAM execution role'",
        depends=("RollbackAlarms", "GreenFleetAlarms", "triton_fleet.app.config"),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all`, then again with -c min_capacity=2: the update completes",
        if_false="Deploy with -c rollback_alarms=false, and grant the permission to the role that the error "
        "names",
    ),
    Belief(
        id="alarm-before-update-ends-it",
        belief="SageMaker rolls an update back if an alarm is already in ALARM when the wait begins",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-configuration.html: an "
        "old fleet that trips the alarm ends the deployment",
        depends=("RollbackAlarms", "triton_fleet.app.config"),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws cloudwatch set-alarm-state` on a rollback alarm, then an update",
        if_false="Remove the advice in docs/recipes.md to deploy a fix with -c rollback_alarms=false",
    ),
    Belief(
        id="configuration-in-use-refused",
        belief="UpdateEndpoint refuses the configuration that the endpoint has, even with another deployment "
        "strategy",
        grade=Grade.PUBLIC_RECORD,
        records=(
            Record(
                repository="mikegc-aws/strands-decider-triton",
                at="08f8c414e1 deploy/create_endpoint.py",
                seen="'ValidationException: Cannot update endpoint with the currently in use endpoint "
                'configuration "strands-decider-g6-config"\'',
            ),
        ),
        depends=("triton_fleet.endpoint.base", "embedded_aws.moto_gaps.sagemaker"),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws sagemaker update-endpoint` with the endpoint's own configuration",
        if_false="Nothing: another strategy makes another configuration, which works in either case",
    ),
    Belief(
        id="endpoint-in-progress",
        belief="CloudFormation fails if it updates or deletes an endpoint while auto scaling or another "
        "update changes it",
        grade=Grade.ASSUMPTION,
        source="SageMaker refuses both (`endpoint-creating-not-deletable`); no source says if CloudFormation "
        "waits",
        depends=("EndpointChange",),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws sagemaker update-endpoint-weights-and-capacities`, then at once an update of a stack "
        "without EndpointChange",
        if_false="Nothing: EndpointChange waits for what CloudFormation would wait for",
        no_probe="a stack with an endpoint must be deployed",
    ),
    Belief(
        id="undone-update-fails",
        belief="CloudFormation fails the update of an endpoint that SageMaker has undone",
        grade=Grade.ASSUMPTION,
        source="No record. Terraform's provider took it for a success (issues 39099 and 48997 of "
        "terraform-provider-aws)",
        depends=("EndpointChange", "embedded_aws.cloudformation.sagemaker"),
        decided_by=DecidedBy.BY_HAND,
        command="`aws cloudwatch set-alarm-state` on a rollback alarm, then `npx cdk deploy --all -c "
        "min_capacity=2`: the events of the stack",
        if_false="Nothing: EndpointChange compares the configuration, and fails the deployment itself",
    ),
    Belief(
        id="rollback-of-undone-update",
        belief="After an update that SageMaker has undone, CloudFormation's rollback succeeds, although the "
        "endpoint has its former configuration already",
        grade=Grade.ASSUMPTION,
        source="UpdateEndpoint refuses that configuration (`configuration-in-use-refused`), but no source "
        "reports a rollback that failed for it",
        depends=("EndpointChange", "embedded_aws.cloudformation.sagemaker"),
        decided_by=DecidedBy.BY_HAND,
        command="`aws cloudwatch set-alarm-state` on a rollback alarm, then `npx cdk deploy --all -c "
        "min_capacity=2`: the stack ends in UPDATE_ROLLBACK_COMPLETE",
        if_false="The stack ends in UPDATE_ROLLBACK_FAILED: skip the endpoint, as docs/day_two.md says",
    ),
    Belief(
        id="rollback-order",
        belief="In a rollback, CloudFormation first updates resources back, each after those that it depends "
        "on, then deletes what it has created",
        grade=Grade.DOCUMENTATION,
        source="docs/CLOUDFORMATION.md of aws/aws-cdk has the two phases; the order in the first is assumed",
        depends=("EndpointChange", "embedded_aws.cloudformation.engine"),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws cloudformation cancel-update-stack` while the endpoint is Updating: the events of the "
        "stack",
        if_false="The rollback meets an endpoint in progress: continue it, as docs/day_two.md says",
        no_probe="a stack with an endpoint must be deployed",
    ),
    Belief(
        id="guardrails-with-multi-model",
        belief="Blue/green and rolling deployments work with multi-model endpoints",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/model-deploy-feature-matrix.html",
        depends=("BlueGreen", "Rolling", "RollbackAlarms"),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all` twice, with a deployment strategy",
        if_false="Update all at once",
    ),
    Belief(
        id="local-storage-refused",
        belief="Instance types with NVMe refuse a volume size and a KMS key for the volume",
        grade=Grade.PUBLIC_RECORD,
        source="sagemaker-python-sdk's table",
        records=(
            Record(
                repository="autogluon/autogluon-cloud",
                at="#50",
                seen="'VolumeSize parameter is not allowed for the selected Instance type ml.g4dn'",
            ),
        ),
        depends=("local-storage-no-volume",),
        decided_by=DecidedBy.ACCOUNT,
        command="CreateEndpointConfig with VolumeSizeInGB on ml.g5.2xlarge",
        if_false="Remove the rule",
    ),
    Belief(
        id="endpoint-creating-not-deletable",
        belief="SageMaker refuses to delete an endpoint while it is being created or updated: 'Cannot "
        "update in-progress endpoint'",
        grade=Grade.PUBLIC_RECORD,
        records=(
            Record(
                repository="awslabs/stable-diffusion-aws-extension",
                at="#342",
                seen="'can't delete endpoint when status is `Creating` or `Updating`'",
            ),
            Record(
                repository="aws/amazon-sagemaker-examples",
                at="#3432",
                seen="an endpoint in Creating changed to Failed after a day, and could be deleted then",
            ),
        ),
        depends=("triton_models.probe.account.resources",),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws sagemaker delete-endpoint` for an endpoint that is Creating",
        if_false="Shorten the wait of `fleet probe account` after Ctrl-C",
    ),
)
