"""Tables about AWS, Triton, TensorRT and GPUs, each row with its source and date.

Start with `releases`, the contents of Triton releases, and `instances`, the hardware of instance types and
the memory of GPUs. `gpu_memory` is what a server takes of it. `host_amis`, `image_contents`, `tensorrt`,
`dali`, `openvino`, `shared_memory`, `load_threads` and `ports` hold further facts, and `limits` those of
AWS's services. `prices` and `cost` are about money, and `build_machines` about the machines that builds run
on. `quotas` compares `quota_needs` with an account.
"""
