"""`fleet build`: create a model directory from its declaration.

`build` is the command, `making` contains its steps, and `job` is passed to a declaration's own `write()`.
`export` turns networks into ONNX, TorchScript or DALI files, `tensorrt` compiles plans, and `derived` and
`warmup` complete config.pbtxt. `inputs` determines whether a build is needed. `merge` joins builds for
several GPU models. `locked` installs the build requirements. `adopted` serves Triton directories as they are.

Imports: artifact, base, client, config, declare, environments, facts, pack, repository.
"""
