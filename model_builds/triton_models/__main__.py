"""`python -m triton_models`: the `fleet` command where nothing is installed, as in the build job."""

from triton_models.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
