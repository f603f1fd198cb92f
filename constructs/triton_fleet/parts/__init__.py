"""What endpoints and builds are made with: checked arguments, images, networks, the repository, and metrics.

`arguments` reports all mistakes in one error. `serving` is the hardware, release and image that travel
together. `images`, `network`, `repository` and `metrics` have what endpoints, builds and alarms take.
"""
