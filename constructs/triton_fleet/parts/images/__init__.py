"""The Triton images: those of AWS, and images of your own.

`image` is what SageMaker and CodeBuild pull, with its labels.
"""
