"""The system on one machine: an embedded AWS, the real CDK command line, real Triton servers."""
