"""`fleet report`: describe the effects of a change on a deployment, for the reviewer of a pull request."""
