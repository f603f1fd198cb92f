"""Tables about AWS, Triton, TensorRT and GPUs, each row with its source and date.

Start with `releases`, the contents of Triton releases, and `instances`, the hardware of instance types.
`host_amis`, `image_contents`, `tensorrt`, `shared_memory`, `load_threads`, `ports` and `payload` hold further
facts.
`prices` and `cost` are about money, and `build_machines` about the machines that builds run on. `quotas`
compares `quota_needs` with an account.
"""
