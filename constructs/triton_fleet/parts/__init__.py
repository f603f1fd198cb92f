"""What endpoints and builds are made with: checked arguments, images, networks, the repository, and metrics.

`arguments` reports all mistakes in one error. `images`, `network`, `repository` and `metrics` have the
constructs and values that several rooms take.
"""
