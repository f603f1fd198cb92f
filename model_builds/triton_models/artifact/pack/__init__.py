"""`fleet pack`: one immutable .tar.gz per model, named after its content.

`pack` writes archives, and reads those to publish: `content` reads files, `choice` picks those worth
compressing, `tar` makes headers, and `stream` writes all of it. `dali` removes source paths from pipelines,
`called` gives models that others call unique names, and `renaming` gives models other names.
"""
