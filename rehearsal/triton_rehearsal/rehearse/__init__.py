"""`fleet rehearse`: deploy, build, serve and verify on this machine."""
