"""The entire system on one machine: an embedded AWS, the real CDK command line and real Triton servers."""
