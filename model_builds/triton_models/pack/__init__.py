"""`fleet pack`: one immutable .tar.gz per model, named after its content.

`pack` checks a model and writes its archive: `content` reads files, `choice` picks those worth compressing,
`tar` and `deflate` make headers and blocks, and `stream` writes them on all cores. `dali` removes source
paths from pipelines; `called` gives models that others call unique names, `copies` packs one model under many
names, and `renaming` does both.

Imports: artifact, base, check, config.
"""
