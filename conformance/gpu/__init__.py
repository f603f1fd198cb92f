"""Beliefs that a machine with a GPU decides, in the image of a release."""
