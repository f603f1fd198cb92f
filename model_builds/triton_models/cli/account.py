"""The arguments of the verbs that ask an AWS account."""

from __future__ import annotations

import argparse


def quotas(parser: argparse.ArgumentParser) -> None:
    """`fleet quotas`."""
    from triton_models.facts.quota_needs import DEFAULT_MAX_CAPACITY, MACHINES

    parser.add_argument(
        "--instance-type", required=True, metavar="TYPE", help="what the endpoint runs on: ml.g5.2xlarge"
    )
    parser.add_argument(
        "--region", help="where it is deployed (default: the region of the AWS configuration)"
    )
    parser.add_argument(
        "--instances",
        type=int,
        default=DEFAULT_MAX_CAPACITY,
        metavar="N",
        help="the most it scales to, max_capacity of cdk.json (default: %(default)s)",
    )
    parser.add_argument(
        "--parallel-builds",
        type=int,
        default=1,
        metavar="N",
        help="the most builds at a time, parallel_builds of cdk.json (default: %(default)s)",
    )
    parser.add_argument(
        "--machine",
        choices=MACHINES,
        default=MACHINES[0],
        help="what builds run on (default: what the build job chooses for the GPU and the region)",
    )
    parser.add_argument(
        "--build-instance-type", metavar="TYPE", help="of Processing jobs, where it is not the endpoint's"
    )
