"""The stacks, which only wire constructs together."""
