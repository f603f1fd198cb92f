"""What Triton or SageMaker would refuse: one function for each rule, with a stable id."""
