"""The embedded AWS of each test, unless its file opens another one."""

from tests.triton_aws.embedded import embedded_aws

aws = embedded_aws()
