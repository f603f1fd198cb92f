"""An embedded CloudFormation: an engine that deploys stacks, and the resource types that it supports."""
