"""The parts of `triton_models.artifact.archive`: gzip, tape, headers, names."""
