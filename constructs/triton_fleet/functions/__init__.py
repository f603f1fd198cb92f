"""Code that runs in AWS while something is deployed."""
