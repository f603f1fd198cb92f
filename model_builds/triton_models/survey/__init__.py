"""Judges thousands of declarations during a synthesis."""
