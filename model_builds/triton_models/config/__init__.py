"""Triton's config.pbtxt: read and written.

`pbtxt` uses NVIDIA's protobuf schema and builds usual configurations; `spelling` reads a file as Triton's
C++ parser does.

Imports: base, declare.
"""
