"""Stages the site: the written pages, and those that are made from the code and from nothing else."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The root of the repository."""
