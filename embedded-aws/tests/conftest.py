"""The embedded AWS of each test, unless its file opens another one."""

from aws_for_tests.fixture import aws_fixture

aws = aws_fixture()
