"""Compilation of TensorRT plans with trtexec, on the GPU and with the TensorRT that will load them.

A plan loads only on the GPU model and in the TensorRT version that compiled it, down to the patch number
(NVIDIA's TensorRT support matrix; Triton server issues 7221 and 7613). Both are therefore checked before the
compiler starts, and the version is read back from the plan itself.
"""
