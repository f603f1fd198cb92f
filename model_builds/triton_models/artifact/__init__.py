"""The content of an artifact, and the hardware that it runs on.

`layout` lists names, sizes and configurations of a folder or a .tar.gz. `archive` is the only reader of
archives. `networks` and `forest_head` read metadata of network files. `targets` and `plans` determine the
hardware that an artifact runs on. `roots` moves a finished build to its place, and marks one that failed its
verification.

`pbtxt` reads and writes configurations with NVIDIA's schema, as Triton does. `environments` puts Python
packages next to a model, and `pack` writes the immutable .tar.gz.
"""
