"""The whole system on one machine: an embedded AWS, the real CDK command line, a real Triton server."""
