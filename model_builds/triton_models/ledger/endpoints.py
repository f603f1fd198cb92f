"""Beliefs about SageMaker's endpoints: what can be created, its hosts, and how it is changed."""

from __future__ import annotations

from triton_models.ledger.belief import Belief, DecidedBy, Grade

ROWS = (
    Belief(
        id="model-on-empty-prefix",
        belief="CreateModel accepts a multi-model repository whose prefix has no object yet",
        grade=Grade.ASSUMPTION,
        source="AWS's documents are silent; sagemaker-python-sdk#1144 creates an object to be safe",
        depends=(
            "ModelRepository",
            "EndpointStart",
        ),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all` in a new account",
        if_false="Nothing breaks: EndpointStart puts an empty manifest under the prefix first",
    ),
    Belief(
        id="stacks-deploy",
        belief="The stacks deploy to an account",
        grade=Grade.ASSUMPTION,
        source="The embedded AWS, cfn-lint, botocore's models and cdk-nag accept them",
        depends=(
            "stacks.models",
            "stacks.inference",
        ),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all`",
        if_false="Read the failed resource's reason with --no-rollback",
        no_probe="the app's own stacks have to be deployed, which `fleet probe` does not have",
    ),
    Belief(
        id="ami-with-multi-model",
        belief="A GPU multi-model endpoint accepts InferenceAmiVersion, and release 25.09 starts on it",
        grade=Grade.ASSUMPTION,
        source="AWS's documents neither list nor exclude it for multi-model endpoints",
        depends=("triton_models.facts.host_amis", "MultiModelEndpoint", "host-ami"),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all`; then `aws sagemaker describe-endpoint --endpoint-name "
        "TritonFleet-g5-2xlarge-25-09` says InService",
        if_false="Use release 25.04, whose AMI is gpu-3-1, or name another one with inference_ami",
    ),
    Belief(
        id="ami-fits-instance-family",
        belief="CreateEndpointConfig accepts al2023-ami-sagemaker-inference-gpu-4-1 with ml.g5 and "
        "ml.g4dn of one GPU, and al2-ami-sagemaker-inference-gpu-3-1 as well",
        grade=Grade.PUBLIC_RECORD,
        source="REPORTS in triton_models/facts/host_amis.py: works on g4dn and on g5 of one GPU; "
        "deep-learning-containers 2ec0bc190f (2026-07-15) says that g5.12xlarge is refused",
        depends=("triton_models.facts.host_amis.REPORTS", "host-ami"),
        decided_by=DecidedBy.ACCOUNT,
        command="an endpoint of each pair; CreateEndpointConfig answers 'Invalid combination' otherwise",
        if_false="Name another AMI with inference_ami, or use release 25.04 with gpu-3-1",
    ),
    Belief(
        id="ami-driver",
        belief="The AMI gpu-3-1 has driver 550 and CUDA 12.4; gpu-4-1 has driver 580 and CUDA 13.0; the "
        "default of g4dn and g5 has 470",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/inference-gpu-drivers.html",
        depends=("triton_models.facts.host_amis.HOST_AMIS", "triton_models.facts.releases.CUDA_MAJORS"),
        decided_by=DecidedBy.ACCOUNT,
        command="a Python model that runs `nvidia-smi --query-gpu=driver_version --format=csv` on an "
        "endpoint of each",
        if_false="Correct HOST_AMIS in triton_models/facts/host_amis.py",
    ),
    Belief(
        id="ami-too-old-symptom",
        belief="A container whose CUDA major the AMI's driver does not run hangs in Creating or fails, "
        "without logs",
        grade=Grade.PUBLIC_RECORD,
        source="deep-learning-containers issue 4990 and pull request 6187 (2026-06-05)",
        depends=("triton_models.facts.host_amis", "host-ami"),
        decided_by=DecidedBy.BY_HAND,
        command="an endpoint of release 25.09 on the default AMI",
        if_false="Say in docs/traps.md what is seen instead",
    ),
    Belief(
        id="cuda-12-on-newest-ami",
        belief="A container of CUDA 12 does not start under al2023-ami-sagemaker-inference-gpu-4-1",
        grade=Grade.PUBLIC_RECORD,
        source="The records differ. deep-learning-containers pull request 6187 (2026-06-05): a container of "
        "CUDA 12.9 hangs in Creating. sagemaker-genai-hosting-examples, FLUX.2 on ml.g7e: the AMI is needed "
        "'for CUDA 12.9 compatibility'. NVIDIA's CUDA compatibility guide: drivers from 580 on run CUDA 12",
        depends=("host-ami", "triton_models.facts.host_amis.HOST_AMIS"),
        decided_by=DecidedBy.ACCOUNT,
        command="an endpoint of release 25.04 with `inference_ami` al2023-ami-sagemaker-inference-gpu-4-1",
        if_false="Let the rule host-ami accept an AMI of a newer CUDA major",
        no_probe="an endpoint that hangs in Creating is what is expected: it cannot be deleted, and is "
        "billed",
    ),
    Belief(
        id="gpu-ami-on-cpu-refused",
        belief="SageMaker refuses a host image for GPUs on an instance type without a GPU",
        grade=Grade.ASSUMPTION,
        source="AWS lists these images for GPU families alone",
        depends=("host-ami",),
        decided_by=DecidedBy.ACCOUNT,
        if_false="Drop that part of the rule host-ami",
    ),
    Belief(
        id="multi-model-instance-types",
        belief="CreateEndpointConfig accepts multi-model endpoints on every size of ml.g4dn and ml.g5 with "
        "one GPU, and on CPU types",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-support.html; "
        "sagemaker-python-sdk issue 1323 has the words of a refusal",
        depends=(
            "multi-model-type",
            "multi-model-one-gpu",
            "triton_models.facts.instances.INSTANCE_TYPES",
        ),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all -c instance_type=ml.g4dn.xlarge`",
        if_false="Correct the table in triton_models/facts/instances.py",
    ),
    Belief(
        id="multi-model-undocumented-types",
        belief="CreateEndpointConfig may accept a multi-model endpoint on ml.g6 or ml.g6e, which AWS does "
        "not list",
        grade=Grade.ASSUMPTION,
        source="AWS's list ends at g5; sagemaker-python-sdk#1323 shows that the service keeps a list",
        depends=("triton-fleet:multi-model-undocumented",),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all -c instance_type=ml.g6.2xlarge`",
        if_false="Make the warning an error for these types",
    ),
    Belief(
        id="g7-driver",
        belief="ml.g7 needs driver 595, which no AMI of today has, and serves with the host of "
        "SageMaker's choice",
        grade=Grade.PUBLIC_RECORD,
        source="NVIDIA/aicr#2743 and amazon-eks-ami#2768",
        depends=("triton_models.facts.host_amis.OLDEST_DRIVERS", "host-ami"),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all -c instance_type=ml.g7.2xlarge`",
        if_false="Name the AMI that works in the table",
        no_probe="it needs a quota of its own, and an endpoint at several USD an hour",
    ),
    Belief(
        id="start-takes-twelve-minutes",
        belief="A GPU instance takes 12 to 15 minutes from its request to serving, with an image of 27.7 GB",
        grade=Grade.PUBLIC_RECORD,
        source="Measured by the authors of strands-decider-triton",
        depends=(
            "Cooldowns",
            "EndpointScaling",
        ),
        decided_by=DecidedBy.ACCOUNT,
        command="the time from CreateEndpoint to InService of `npx cdk deploy --all`",
        if_false="Correct the default cooldown after scaling out",
    ),
    Belief(
        id="lack-of-capacity",
        belief="SageMaker reports a lack of capacity about half an hour after it was asked for an instance",
        grade=Grade.PUBLIC_RECORD,
        source="31 minutes, measured by the authors of strands-decider-triton",
        depends=("triton_fleet.hosting.deployment", "Deployment"),
        decided_by=DecidedBy.BY_HAND,
        command="the time from CreateEndpoint to Failed, where a region is short of the instance type",
        if_false="Correct the default of maximum_time in triton_fleet/hosting/deployment.py",
    ),
    Belief(
        id="endpoint-arn-lower-case",
        belief="SageMaker writes an endpoint's name in its ARN in lower case, and IAM compares with that",
        grade=Grade.PUBLIC_RECORD,
        source="philschmid/cdk-samples issue 2",
        depends=("ImportedEndpoint", "EndpointAlias"),
        decided_by=DecidedBy.ACCOUNT,
        if_false="Write names as they are, in triton_fleet/endpoint/imported.py and scaling/alias.py",
    ),
    Belief(
        id="network-services",
        belief="Image pulls, logs and metrics of a hosted model pass the VPC that its endpoint is attached "
        "to",
        grade=Grade.ASSUMPTION,
        source="AWS documents that models do, and says nothing of the rest",
        depends=("EndpointNetwork", "triton_fleet.hosting.network.VpcService"),
        decided_by=DecidedBy.ACCOUNT,
        command="an endpoint in isolated subnets with create_vpc_endpoints=[VpcService.S3]: it starts, or "
        "not",
        if_false="Create the VPC endpoint for S3 alone: each of the others is billed by the hour",
        no_probe="a VPC with subnets, routes and VPC endpoints is more than a probe should create",
    ),
    Belief(
        id="instance-type-change",
        belief="A changed instance_type deploys without an interruption: the new endpoint, its scaling, the "
        "alias, then the end of the old one",
        grade=Grade.ASSUMPTION,
        source="CloudFormation's order of creation and removal; the embedded AWS shows it",
        depends=(
            "EndpointAlias",
            "tests.rehearsal.test_instance_type_change",
        ),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all -c instance_type=ml.g5.4xlarge` under load",
        if_false="Deploy the new type next to the old one as a second stack, and move the alias by hand",
        no_probe="the app's own stacks have to be deployed, on two endpoints",
    ),
    Belief(
        id="old-endpoint-deletion",
        belief="Requests that are running when the old endpoint is deleted are answered",
        grade=Grade.ASSUMPTION,
        source="AWS's documents do not say",
        depends=("EndpointAlias",),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all -c instance_type=ml.g5.4xlarge` under load",
        if_false="Keep the old endpoint for a while after the alias has moved",
    ),
    Belief(
        id="update-with-scaling-refused",
        belief="UpdateEndpoint refuses another instance type for a variant that is a registered scalable "
        "target",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html; aws-cdk#29626",
        depends=(
            "alias-endpoint-name",
            "EndpointAlias",
        ),
        decided_by=DecidedBy.ACCOUNT,
        command="a fixed endpoint name and `npx cdk deploy --all -c instance_type=ml.g5.4xlarge`",
        if_false="Nothing: the alias way works in either case",
    ),
    Belief(
        id="bake-announcement",
        belief="SageMaker announces each bake with the endpoint's name as it was given, and the warm-up "
        "loads the models",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html",
        depends=("EndpointWarmUp",),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws logs tail` of the warm-up's log group, after an update",
        if_false="Correct the event pattern of the warm-up",
    ),
    Belief(
        id="artifact-wait",
        belief="An hour's wait for an artifact passes through its five invocations",
        grade=Grade.SOURCE_READ,
        source="CDK's provider framework",
        depends=("ArtifactReady",),
        decided_by=DecidedBy.ACCOUNT,
        command="a `SingleModelEndpoint`, and publishing after 50 minutes",
        if_false="Shorten the wait to what one invocation can do",
        no_probe="it takes the hour that it is about",
    ),
    Belief(
        id="async-to-zero",
        belief="An asynchronous endpoint scales to zero instances and back; in a VPC its requests and "
        "answers pass the narrow S3 endpoint",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html",
        depends=(
            "AsyncInference",
            "EndpointNetwork",
        ),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws sagemaker-runtime invoke-endpoint-async`, then `aws application-autoscaling "
        "describe-scaling-activities --service-namespace sagemaker`",
        if_false="Keep one instance; widen the S3 endpoint's policy",
        no_probe="it needs a VPC, and an endpoint of its own that idles until it is scaled in",
    ),
    Belief(
        id="undocumented-features",
        belief="A multi-model endpoint accepts detailed observability and least-outstanding-requests routing",
        grade=Grade.ASSUMPTION,
        source="AWS's documents leave it open",
        depends=(
            "Routing",
            "multi-model-excludes",
        ),
        decided_by=DecidedBy.ACCOUNT,
        command="a deployment with each",
        if_false="Refuse the one that is refused",
    ),
    Belief(
        id="instance-pools-single-model",
        belief="Instance pools are for single-model endpoints and inference components alone",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-heterogeneous.html",
        depends=(
            "InstancePool",
            "instance-pools",
        ),
        decided_by=DecidedBy.ACCOUNT,
        command="a multi-model endpoint with instance_pools",
        if_false="Allow them without opting in",
    ),
    Belief(
        id="data-capture-excluded",
        belief="Data capture, shadow variants and several variants are refused with multi-model endpoints",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/model-deploy-feature-matrix.html",
        depends=(
            "multi-model-excludes",
            "DataCapture",
        ),
        decided_by=DecidedBy.ACCOUNT,
        command="CreateEndpointConfig with each",
        if_false="Allow what is accepted",
    ),
    Belief(
        id="alarms-read-with-execution-role",
        belief="SageMaker reads the alarms of an update with the endpoint's execution role, or asks for no "
        "permission at all",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-configuration.html "
        "asks for cloudwatch:DescribeAlarms of 'your IAM execution role'",
        depends=("RollbackAlarms", "GreenFleetAlarms", "stacks.updates"),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all`, then again with -c min_capacity=2: the update completes",
        if_false="Deploy with -c rollback_alarms=false, and give the permission to the role that the error "
        "names",
    ),
    Belief(
        id="alarm-before-update-ends-it",
        belief="An update is rolled back for an alarm that is already in ALARM when the wait begins",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-configuration.html: an "
        "old fleet that trips the alarm ends the deployment",
        depends=("RollbackAlarms", "stacks.updates"),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws cloudwatch set-alarm-state` on a rollback alarm, then an update",
        if_false="-c rollback_alarms=false is not needed to repair a version that fails",
    ),
    Belief(
        id="deployment-config-alone",
        belief="An update that changes nothing but the deployment strategy or its alarms succeeds",
        grade=Grade.ASSUMPTION,
        source="CloudFormation updates DeploymentConfig without replacement; whether UpdateEndpoint takes "
        "the configuration that the endpoint has is not documented",
        depends=("stacks.updates",),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all`, then again with -c deployment_wait_minutes=5",
        if_false="Change the strategy together with something else of the endpoint",
    ),
    Belief(
        id="guardrails-with-multi-model",
        belief="Blue/green and rolling deployments work with multi-model endpoints",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/model-deploy-feature-matrix.html",
        depends=(
            "BlueGreen",
            "Rolling",
            "RollbackAlarms",
        ),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all` twice, with a deployment strategy",
        if_false="Update all at once",
    ),
    Belief(
        id="local-storage-refused",
        belief="Instance types with NVMe refuse a volume size and a KMS key for the volume",
        grade=Grade.PUBLIC_RECORD,
        source="autogluon-cloud#50; sagemaker-python-sdk's table",
        depends=("local-storage-no-volume",),
        decided_by=DecidedBy.ACCOUNT,
        command="CreateEndpointConfig with VolumeSizeInGB on ml.g5.2xlarge",
        if_false="Drop the rule",
    ),
    Belief(
        id="endpoint-creating-not-deletable",
        belief="SageMaker refuses to delete an endpoint while it is created or updated",
        grade=Grade.PUBLIC_RECORD,
        source="awslabs/stable-diffusion-aws-extension#342; amazon-sagemaker-examples issue 3432 and pull "
        "request 3188",
        depends=("triton_models.probe.account.resources",),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws sagemaker delete-endpoint` of an endpoint that is Creating",
        if_false="Shorten the wait of `fleet probe account` after Ctrl-C",
    ),
)
