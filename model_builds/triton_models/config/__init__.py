"""Reading and writing Triton's config.pbtxt.

`pbtxt` uses NVIDIA's protobuf schema, builds common configurations, and reads a file as Triton does.

Imports: base, declare.
"""
