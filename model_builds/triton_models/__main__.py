"""`python -m triton_models`: the `fleet` command without an installation, as in the build job."""

from triton_models.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
