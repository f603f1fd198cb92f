"""`fleet build`: a model directory from its declaration.

`build` is the verb, `making` the steps, and `job` what a declaration's own `write()` gets. `export` turns
networks into ONNX, TorchScript or DALI files; `tensorrt` compiles plans; `derived` and `warmup` complete
config.pbtxt. `inputs` says whether a build is needed at all. `merge` joins builds for several GPU models.
`locked` installs what builds need.

Imports: artifact, base, config, declare, environments, facts, pack, repository.
"""
