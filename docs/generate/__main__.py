"""Stages the site: `python -m docs.generate`. `make docs` builds it."""

from docs.generate.site import stage

if __name__ == "__main__":
    stage()
