"""What `fleet verify` is made of: a Triton server, the comparison of its answers, and the mark it leaves."""
