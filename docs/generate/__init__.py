"""Stages the site: the written pages, and those that are made from the code and from nothing else."""
