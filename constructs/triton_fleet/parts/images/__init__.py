"""The Triton images: those of AWS, and images of your own.

`image` is what SageMaker and CodeBuild pull; `labels` reads the labels of an image of your own, and `checks`
checks release, region and GPU.
"""
