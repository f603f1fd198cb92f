"""Tables about AWS, Triton, TensorRT and GPUs, each row with its source and date.

Start with `releases` and `instances`: what a Triton release contains, and what an instance type has.
`host_amis`, `image_contents`, `tensorrt`, `shared_memory` and `payload` hold what follows from either;
`prices` and `cost` what an hour costs; `build_machines` where builds run. `quotas` compares `quota_needs`
with an account.

Imports: base.
"""
