"""Tables about AWS, Triton, TensorRT and GPUs, each row with its source and date.

Start with `releases`, the contents of Triton releases, and `instances`, the hardware of instance types and
the memory of GPUs. `gpu_memory` is what a server takes of it. `host_amis`, `image_contents`, `tensorrt`,
`dali`, `server_log` and `containers` hold further facts, and `limits` those of AWS's services.
`cost` is about money, and `build_machines` about the machines that builds run on. `quotas` has the quotas
that a fleet needs, and compares them with an account.
"""
