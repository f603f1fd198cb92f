"""`fleet build`: create a model directory from its declaration.

`build` is the command, `making` contains its steps, and `job` is passed to a declaration's own `write()`.
`export` turns networks into ONNX, TorchScript, compiled or DALI files, `tensorrt` compiles plans, and
`derived` completes config.pbtxt, and `environments` installs what Python models import. `inputs` determines
whether a build is needed. `locked` installs the build requirements. `adopted` serves Triton directories as
they are. `called_models` runs in the server, next to the code of models that call others.
"""
