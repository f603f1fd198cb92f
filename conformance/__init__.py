"""A pytest suite that decides beliefs about AWS, Triton and GPUs. It is not part of the distribution.

The same tests ask an AWS account (`--aws`), a GPU (`--gpu`), and otherwise the embedded AWS and the records.
"""
