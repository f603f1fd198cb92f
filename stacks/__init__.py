"""What is deployed together. Stacks wire constructs and define nothing themselves."""
