"""The parts of `triton_models.archive`: gzip, tape, headers, names."""
