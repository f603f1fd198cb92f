"""`fleet rehearse`: deploys, builds, serves and verifies on this machine."""
