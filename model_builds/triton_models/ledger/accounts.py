"""Beliefs about accounts: images, quotas, prices, permissions, and how S3 answers."""

from __future__ import annotations

from triton_models.ledger.belief import Belief, DecidedBy, Grade

ROWS = (
    Belief(
        id="s3-refuses-taken-key",
        belief="S3 compares the SHA-256 of objects and parts, and refuses CompleteMultipartUpload with "
        "If-None-Match where an object is",
        grade=Grade.AWS_DOCUMENTATION,
        source="AWS's documents about conditional writes and checksums",
        depends=(
            "triton_models.repository.s3",
            "triton_models.repository.upload",
        ),
        decided_by=DecidedBy.ACCOUNT,
        command="`fleet publish` of an artifact over 64 MB, twice at once",
        if_false="Ask for the object's checksum before and after it is written",
    ),
    Belief(
        id="head-bucket-returns-region",
        belief="HeadBucket returns the region to a role without ListBucket",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadBucket.html",
        depends=("triton_models.repository.prune",),
        decided_by=DecidedBy.ACCOUNT,
        command="`fleet prune --keep 3 --dry-run`",
        if_false="Give the role ListBucket, or name the region",
    ),
    Belief(
        id="list-bucket-by-prefix",
        belief="A role with ListBucket for the prefix alone is enough for SageMaker and for `fleet publish`",
        grade=Grade.ASSUMPTION,
        source="AWS's examples have the condition; HeadBucket and a list without the slash are denied",
        depends=("ModelRepository",),
        decided_by=DecidedBy.ACCOUNT,
        command="a deployment, and `fleet publish`",
        if_false="Grant ListBucket on the bucket",
    ),
    Belief(
        id="images-in-every-region",
        belief="AWS publishes the images of a release in the regions of the release table",
        grade=Grade.PUBLIC_RECORD,
        source="image_uri_config of sagemaker-core 2.27.0",
        depends=(
            "triton_models.facts.releases.RELEASES",
            "triton_models.facts.releases.IMAGE_ACCOUNTS",
            "release-not-in-region",
            "tests.constructs.test_image_table",
        ),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws ecr describe-images --registry-id ... --repository-name sagemaker-tritonserver "
        "--image-ids imageTag=25.09-py3`",
        if_false="Correct the regions in triton_models/facts/releases.py",
    ),
    Belief(
        id="gpu-image-without-gpu",
        belief="The image for GPUs starts and serves on instance types without one",
        grade=Grade.ASSUMPTION,
        source="NVIDIA documents it for tritonserver; SageMaker's start script was not tried so",
        depends=("TritonImage",),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all -c instance_type=ml.c7i.2xlarge`, then invoke a model",
        if_false="Deploy with `-c cpu_image=true`: endpoint and builds take the `-cpu` image",
    ),
    Belief(
        id="cpu-images-exist",
        belief="The `-cpu` images exist in every region of the image table",
        grade=Grade.PUBLIC_RECORD,
        source="sagemaker-core's suffix; deep-learning-containers' pages list GPU images only from 23.12 on",
        depends=("TritonImage",),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws ecr describe-images --registry-id ... --repository-name sagemaker-tritonserver "
        "--image-ids imageTag=25.09-py3-cpu`",
        if_false="Nothing: CPUs are served with the image for GPUs, unless cpu_image is asked for",
    ),
    Belief(
        id="newer-releases-published",
        belief="AWS publishes 25.12, 26.03 and 26.04 as well, which the SDK's table lacks",
        grade=Grade.PUBLIC_RECORD,
        source="docs/src/data/sagemaker-tritonserver of deep-learning-containers, pull request 6739",
        depends=(
            "triton_models.facts.releases.RELEASES",
            "release-not-on-sagemaker",
        ),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws ecr describe-images --registry-id ... --repository-name sagemaker-tritonserver "
        "--image-ids imageTag=26.03-py3`",
        if_false="Correct triton_models/facts/releases.py",
    ),
    Belief(
        id="prices",
        belief="Instances cost what the price table says, of which some rows are third parties'",
        grade=Grade.PUBLIC_RECORD,
        source="AWS's price list, and publications named in the table",
        depends=(
            "triton_models.facts.prices",
            "triton_models.facts.cost",
        ),
        decided_by=DecidedBy.ACCOUNT,
        command="compare `model_builds/triton_models/facts/prices.py` with the price list that it names",
        if_false="Correct triton_models/facts/prices.py",
    ),
    Belief(
        id="quota-names",
        belief="SageMaker's quotas have the names that AWS documents, and CodeBuild's the codes that others "
        "have listed; SageMaker's codes are looked up by name",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/general/latest/gr/sagemaker.html has names without codes; "
        "CodeBuild's codes are in public listings of list-service-quotas; both read on 2026-11-22",
        depends=(
            "triton_models.facts.quota_needs",
            "triton_models.facts.quotas",
            "service-quotas",
            "DeploymentBuild",
        ),
        decided_by=DecidedBy.ACCOUNT,
        command="`fleet check-quotas --instance-type ml.g5.2xlarge`",
        if_false="Correct the names and codes in triton_models/facts/quota_needs.py",
    ),
    Belief(
        id="new-account-quotas",
        belief="New accounts have a quota of 0 for GPU builds and for many GPU instances, and 1 for "
        "CodeBuild's Linux/Small builds",
        grade=Grade.PUBLIC_RECORD,
        source="https://docs.aws.amazon.com/codebuild/latest/userguide/limits.html, and reports",
        depends=("triton_models.facts.quota_needs",),
        decided_by=DecidedBy.BY_HAND,
        command="`fleet check-quotas` in a new account",
        if_false="Correct what README says about quotas",
    ),
    Belief(
        id="retain-except-on-create",
        belief="CloudFormation removes a resource of DeletionPolicy RetainExceptOnCreate when its stack's "
        "creation fails",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-deletionpolicy.html",
        depends=("ModelRepository",),
        decided_by=DecidedBy.ACCOUNT,
        command="a first deployment that fails: neither bucket nor key is left",
        if_false="Remove both by hand; the README says how",
    ),
    Belief(
        id="endpoint-logs-after-rollback",
        belief="An endpoint's log group outlives the rollback that deletes the endpoint, where no stack "
        "owns it",
        grade=Grade.AWS_DOCUMENTATION,
        source="SageMaker creates the group /aws/sagemaker/Endpoints/NAME itself",
        depends=("MultiModelEndpoint",),
        decided_by=DecidedBy.ACCOUNT,
        command="a deployment with an image that does not start, then `aws logs describe-log-groups`",
        if_false="Deploy with --no-rollback first",
    ),
    Belief(
        id="pull-request-comment",
        belief="The workflow comments on a pull request",
        grade=Grade.SOURCE_READ,
        source="Held against GitHub's schema, not run",
        depends=("triton_report.command",),
        decided_by=DecidedBy.BY_HAND,
        command="a pull request on GitHub: `.github/workflows/pull-request.yml`",
        if_false="Correct the workflow",
    ),
    Belief(
        id="permissions-enough",
        belief="The permissions of every role are enough",
        grade=Grade.SOURCE_READ,
        source="Policies are created and not enforced here",
        depends=(
            "triton_fleet.endpoint.execution_role",
            "triton_fleet.builds.codebuild",
        ),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all`, a build, and an invocation",
        if_false="Add the permission that the error names",
        no_probe="the roles are the app's own, and have to be deployed with it",
    ),
    Belief(
        id="topic-same-region",
        belief="PutMetricAlarm refuses a topic of another region",
        grade=Grade.PUBLIC_RECORD,
        source="cds-snc/notification-terraform pull request 128 (2021-01-06): 'Invalid region ca-central-1 "
        "specified. Only us-west-2 is supported'",
        depends=("topic-arn",),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws cloudwatch put-metric-alarm` with another region's topic",
        if_false="Check if such a topic is notified; if so, drop the check of the region in the rule "
        "topic-arn",
    ),
    Belief(
        id="no-rollback-continues",
        belief="A stack in CREATE_FAILED continues with `cdk deploy --no-rollback`",
        grade=Grade.SOURCE_READ,
        source="The CDK's command line; the embedded AWS does the same",
        depends=(
            "triton_aws.cloudformation.stacks",
            "tests.rehearsal.test_cdk",
        ),
        decided_by=DecidedBy.ACCOUNT,
        command="a first deployment that fails with --no-rollback, then the same command again",
        if_false="Destroy the stack and deploy it again",
    ),
    Belief(
        id="rollback-of-custom-resources",
        belief="In a rollback a custom resource that was replaced gets no Update, and the new one a Delete",
        grade=Grade.PUBLIC_RECORD,
        source="AWS's knowledge center about Lambda-backed custom resources: the Delete has the new physical "
        "id; aws-cdk issue 17040: an Update comes back where the id was kept",
        depends=(
            "NamesReady",
            "EndpointWarmUp",
            "DeploymentBuild",
        ),
        decided_by=DecidedBy.ACCOUNT,
        command="a deployment to another release whose endpoint does not start",
        if_false="Let the functions answer at once while the stack rolls back",
    ),
    Belief(
        id="old-endpoint-removed-last",
        belief="CloudFormation removes a replaced resource, such as an endpoint, in its clean-up, after "
        "everything else",
        grade=Grade.AWS_DOCUMENTATION,
        source="AWS's page about update behaviors of stack resources",
        depends=(
            "EndpointAlias",
            "tests.rehearsal.test_release_change",
        ),
        decided_by=DecidedBy.ACCOUNT,
        command="the events of the stack after a change of release",
        if_false="Keep the old endpoint in the template until the alias has moved",
    ),
    Belief(
        id="registry-answers-any-account",
        belief="AWS's registries of images answer BatchGetImage to any account",
        grade=Grade.PUBLIC_RECORD,
        source="Pulls of AWS's deep learning containers need no more than a token of the caller's registry",
        depends=("triton_models.probe.account.images",),
        decided_by=DecidedBy.ACCOUNT,
        if_false="Ask by a pull in a build",
    ),
)
