"""Beliefs about accounts: images, quotas, prices, permissions, and the behavior of S3."""

from __future__ import annotations

from triton_models.ledger.belief import Belief, DecidedBy, Grade, Record

ROWS = (
    Belief(
        id="s3-refuses-taken-key",
        belief="S3 compares the SHA-256 of objects and parts, and refuses CompleteMultipartUpload with "
        "If-None-Match if the object exists",
        grade=Grade.AWS_DOCUMENTATION,
        source="AWS's documentation of conditional writes and checksums",
        depends=("triton_models.repository.s3", "triton_models.repository.upload"),
        decided_by=DecidedBy.ACCOUNT,
        command="`fleet publish` of an artifact over 64 MB, twice at once",
        if_false="Compare the object's checksum before and after writing it",
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
        source="AWS's examples have the condition; HeadBucket and listing without the slash are denied",
        depends=("ModelRepository",),
        decided_by=DecidedBy.ACCOUNT,
        command="a deployment, and `fleet publish`",
        if_false="Grant ListBucket on the bucket",
    ),
    Belief(
        id="images-in-every-region",
        belief="AWS publishes the images of a release in the regions of the release table",
        grade=Grade.SOURCE_READ,
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
        source="NVIDIA documents it for tritonserver; SageMaker's start script was not tested",
        depends=("TritonImage",),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all -c instance_type=ml.c7i.2xlarge`, then invoke a model",
        if_false="Deploy with `-c cpu_image=true`, so that endpoint and builds use the `-cpu` image",
    ),
    Belief(
        id="cpu-images-exist",
        belief="The `-cpu` images exist in every region of the image table",
        grade=Grade.SOURCE_READ,
        source="sagemaker-core's suffix; deep-learning-containers' pages list only GPU images since 23.12",
        depends=("TritonImage",),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws ecr describe-images --registry-id ... --repository-name sagemaker-tritonserver "
        "--image-ids imageTag=25.09-py3-cpu`",
        if_false="Nothing: CPU instances use the GPU image unless cpu_image is set",
    ),
    Belief(
        id="newer-releases-published",
        belief="AWS publishes 25.12, 26.03 and 26.04 as well, which the SDK's table lacks",
        grade=Grade.SOURCE_READ,
        source="docs/src/data/sagemaker-tritonserver of deep-learning-containers, pull request 6739",
        depends=("triton_models.facts.releases.RELEASES", "release-not-on-sagemaker"),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws ecr describe-images --registry-id ... --repository-name sagemaker-tritonserver "
        "--image-ids imageTag=26.03-py3`",
        if_false="Correct triton_models/facts/releases.py",
    ),
    Belief(
        id="prices",
        belief="Instances cost as much as the price table says; some of its rows are from third parties",
        grade=Grade.PUBLIC_RECORD,
        source="AWS's price list, and publications named in the table. A public lab of 2026-07 reads 1.515 "
        "for ml.g5.2xlarge in us-east-1, as the table has",
        records=(
            Record(
                repository="mikegc-aws/strands-decider-triton",
                at="08f8c414e1 README.md",
                seen="us-west-2, USD per hour: ml.g6.xlarge 1.1267, ml.g6.2xlarge 1.2220, ml.g6e.xlarge "
                "2.6054, ml.g6e.2xlarge 2.8026, ml.g6e.4xlarge 3.7553, ml.g6e.16xlarge 9.4715",
            ),
        ),
        depends=("triton_models.facts.prices", "triton_models.facts.cost"),
        decided_by=DecidedBy.ACCOUNT,
        command="compare `model_builds/triton_models/facts/prices.py` with the price list named there",
        if_false="Correct triton_models/facts/prices.py",
    ),
    Belief(
        id="quota-names",
        belief="SageMaker's quotas have the names that AWS documents; CodeBuild's, and SageMaker's for all "
        "endpoints and all Processing jobs, have the codes that others have listed",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/general/latest/gr/sagemaker.html has names without codes; "
        "CodeBuild's codes and those of SageMaker's totals are in public listings of list-service-quotas",
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
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/codebuild/latest/userguide/limits.html",
        records=(
            Record(
                repository="mikegc-aws/strands-decider-triton",
                at="08f8c414e1 deploy/create_endpoint.py",
                seen="ml.g6.xlarge for endpoint usage 4, every ml.g6e size to 16xlarge 1, 24xlarge and "
                "48xlarge 0; with 1, UpdateEndpoint cannot replace instances",
            ),
            Record(
                repository="mikegc-aws/strands-decider-triton",
                at="08f8c414e1 README.md",
                seen="a MaxCapacity above the quota is accepted, and only a scaling activity says that it "
                "failed",
            ),
        ),
        depends=("triton_models.facts.quota_needs",),
        decided_by=DecidedBy.BY_HAND,
        command="`fleet check-quotas` in a new account",
        if_false="Correct the statement about quotas in README",
    ),
    Belief(
        id="retain-except-on-create",
        belief="CloudFormation removes a resource with DeletionPolicy RetainExceptOnCreate if the creation "
        "of its stack fails",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-deletionpolicy.html",
        depends=("ModelRepository",),
        decided_by=DecidedBy.ACCOUNT,
        command="a first deployment that fails: neither bucket nor key remains",
        if_false="Remove both by hand; the README says how",
    ),
    Belief(
        id="endpoint-logs-after-rollback",
        belief="An endpoint's log group outlives the rollback that deletes the endpoint, unless a stack "
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
        source="Validated against GitHub's schema, but not run",
        depends=("triton_report.command",),
        decided_by=DecidedBy.BY_HAND,
        command="a pull request on GitHub: `.github/workflows/pull-request.yml`",
        if_false="Correct the workflow",
    ),
    Belief(
        id="deploy-workflow",
        belief="GitHub runs the workflow that deploys, and STS accepts its token for the stage's role alone",
        grade=Grade.SOURCE_READ,
        source="The steps ran one by one against the embedded AWS, which compares issuer, audience and "
        "subject of a token with the role's trust, and checks no signature",
        depends=("triton_fleet.delivery.github_role",),
        decided_by=DecidedBy.BY_HAND,
        command="a merge on GitHub with two stages: `.github/workflows/deploy.yml`",
        if_false="Correct the workflow, or the trust of the role",
    ),
    Belief(
        id="github-subject",
        belief="The subject of a job's token is repo:OWNER@OWNER_ID/NAME@REPOSITORY_ID:environment:NAME for "
        "repositories that were created, renamed or transferred since 2026-07-15, and lacks the ids for "
        "older ones that have not opted in",
        grade=Grade.DOCUMENTATION,
        source="https://github.blog/changelog/"
        "2026-04-23-immutable-subject-claims-for-github-actions-oidc-tokens/; "
        "aws-actions/configure-aws-credentials pull request 1889; github/docs pull request 45221",
        depends=("triton_fleet.delivery.github_role", "github-ids"),
        decided_by=DecidedBy.BY_HAND,
        command="the claim sub in a job's token: a step with `core.getIDToken()` prints it",
        if_false="Correct the subject in GitHubDeployRole",
    ),
    Belief(
        id="stack-output-across-stacks",
        belief="CloudFormation reads an output of another stack of the account, also of another region, with "
        "Fn::GetStackOutput inside of Fn::Split and with the role of `cdk bootstrap`",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/"
        "intrinsic-function-reference-getstackoutput.html",
        depends=("triton_fleet.app.stages", "embedded_aws.cloudformation.stacks"),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all` of two stages in one account with github_repository",
        if_false="Set promoted_from, which names the bucket",
        no_probe="it needs two stages",
    ),
    Belief(
        id="endpoint-role-source-account",
        belief="SageMaker names the account when it assumes the role of an endpoint, also to load a model",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/security-confused-deputy-prevention.html, "
        "section SageMaker AI Inference",
        depends=("triton_fleet.endpoint.execution_role",),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all`, and an invocation",
        if_false="Remove the condition from the trust of the role",
        no_probe="the role belongs to the app, and must be deployed with it",
    ),
    Belief(
        id="conditional-writes-enforced",
        belief="S3 refuses PutObject and CompleteMultipartUpload without If-None-Match by a bucket policy "
        "with s3:if-none-match and s3:ObjectCreationOperation, and accepts the parts of an upload",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html",
        depends=("ModelRepository",),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws s3 cp` of a file to a name that ends with .tar.gz is refused; `fleet publish` of an "
        "artifact over 64 MB works",
        if_false="Remove the statement NothingIsOverwritten from the bucket policy",
        no_probe="it needs the bucket of a repository",
    ),
    Belief(
        id="permissions-enough",
        belief="The permissions of every role are sufficient",
        grade=Grade.SOURCE_READ,
        source="Policies are created but not enforced here",
        depends=("triton_fleet.endpoint.execution_role", "triton_fleet.builds.codebuild"),
        decided_by=DecidedBy.ACCOUNT,
        command="`npx cdk deploy --all`, a build, and an invocation",
        if_false="Add the permission that the error names",
        no_probe="the roles belong to the app, and must be deployed with it",
    ),
    Belief(
        id="topic-same-region",
        belief="PutMetricAlarm refuses a topic in another region",
        grade=Grade.PUBLIC_RECORD,
        records=(
            Record(
                repository="cds-snc/notification-terraform",
                at="#128",
                seen="'Invalid region ca-central-1 specified. Only us-west-2 is supported'",
            ),
        ),
        depends=("topic-arn",),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws cloudwatch put-metric-alarm` with another region's topic",
        if_false="Check if such a topic is notified; if so, remove the check of the region from the rule "
        "topic-arn",
    ),
    Belief(
        id="no-rollback-continues",
        belief="A stack in CREATE_FAILED continues with `cdk deploy --no-rollback`",
        grade=Grade.SOURCE_READ,
        source="The CDK's command line; the embedded AWS does the same",
        depends=("embedded_aws.cloudformation.stacks", "tests.rehearsal.test_cdk"),
        decided_by=DecidedBy.ACCOUNT,
        command="a first deployment that fails with --no-rollback, then the same command again",
        if_false="Destroy the stack and deploy it again",
    ),
    Belief(
        id="rollback-of-custom-resources",
        belief="In a rollback, a replaced custom resource gets no Update, and the new one gets a Delete",
        grade=Grade.AWS_DOCUMENTATION,
        source="AWS's knowledge center about Lambda-backed custom resources: the Delete has the new physical "
        "id; aws-cdk issue 17040: another Update follows if the id did not change",
        depends=("NamesReady", "EndpointWarmUp", "DeploymentBuild"),
        decided_by=DecidedBy.ACCOUNT,
        command="a deployment of another release whose endpoint does not start",
        if_false="Nothing for DeploymentBuild, which answers at once while its stack rolls back; let "
        "NamesReady and the first loads do the same",
    ),
    Belief(
        id="old-endpoint-removed-last",
        belief="CloudFormation removes a replaced resource, such as an endpoint, during its clean-up, after "
        "everything else",
        grade=Grade.AWS_DOCUMENTATION,
        source="AWS's page about update behaviors of stack resources",
        depends=("EndpointAlias", "tests.rehearsal.test_release_change"),
        decided_by=DecidedBy.ACCOUNT,
        command="the events of the stack after a change of release",
        if_false="Keep the old endpoint in the template until the alias has moved",
    ),
    Belief(
        id="registry-answers-any-account",
        belief="AWS's image registries answer BatchGetImage for any account",
        grade=Grade.ASSUMPTION,
        source="Pulling AWS's deep learning containers only needs a token of the caller's registry",
        depends=("triton_models.probe.account.images",),
        decided_by=DecidedBy.ACCOUNT,
        if_false="Pull the images in a build instead",
    ),
    Belief(
        id="key-of-logs",
        belief="A key whose policy names logs.REGION.amazonaws.com encrypts a fleet's log groups, and the "
        "group that SageMaker writes into",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html",
        depends=("LogEncryption",),
        decided_by=DecidedBy.ACCOUNT,
        command="a deployment with `log_encryption_key`, then `aws logs describe-log-groups`",
        if_false="Correct the statement of LogEncryption",
        no_probe="it needs a key, which an account pays for a month",
    ),
    Belief(
        id="budget-by-tag",
        belief="A budget counts the hours of an endpoint's instances by the endpoint's tag",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/cost-management/latest/userguide/budgets-create-filters.html",
        depends=("MonthlyBudget",),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws budgets describe-budget`, a day after the tag was activated for cost allocation",
        if_false="Filter by service and region, which counts all endpoints of the account",
        no_probe="a cost appears after a day",
    ),
)
