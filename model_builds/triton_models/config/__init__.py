"""Reading and writing Triton's config.pbtxt.

`pbtxt` uses NVIDIA's protobuf schema and builds common configurations; `spelling` reads a file like Triton's
C++ parser.

Imports: base, declare.
"""
