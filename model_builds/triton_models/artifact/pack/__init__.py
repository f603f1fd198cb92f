"""`fleet pack`: one immutable .tar.gz per model, named after its content.

`pack` writes archives, and reads those to publish: `content` reads files, and `stream` writes their bytes.
`dali` removes source paths from pipelines. `renaming` gives models other names, unique ones if others call
them.
"""
