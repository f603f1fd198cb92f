"""The embedded AWS of each test, where its file opens no other."""

from tests.triton_aws.embedded import embedded_aws

aws = embedded_aws()
