"""Tables about AWS, Triton and GPUs, with source and date."""
