"""The content of an artifact, and the hardware that it runs on.

`layout` lists names, sizes and configurations of a folder or a .tar.gz. `archive` is the only reader of
archives, made of the parts in `unpacking`. `onnx_head`, `script_head`, `signature` and `plan_header` read
the beginning of network files. `targets`, `built_for` and `plans` say what an artifact runs on; `staging`
puts a finished folder in its place; `refusal` marks a build that failed its verification.

Imports: base, config, facts.
"""
