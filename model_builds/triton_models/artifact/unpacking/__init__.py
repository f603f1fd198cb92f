"""The parts of `triton_models.artifact.archive`: gzip streams, tar headers and paths."""
