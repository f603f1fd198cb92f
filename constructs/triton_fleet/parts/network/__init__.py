"""The private network of endpoints and builds, in a VPC that exists.

- `endpoint_network`: subnets, security groups, and the VPC endpoints of the AWS services that they need.
- `findings`: what compliance packs say of its permissions.
- `placement`: network, role, key and isolation, which an endpoint takes together.
"""
