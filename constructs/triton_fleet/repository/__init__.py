"""The model repository, and the job that builds models for it."""
