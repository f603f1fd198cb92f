"""Helpers of these tests, which those of programs that use the embedded AWS share."""
