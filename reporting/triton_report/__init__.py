"""What a change does to what is deployed, in words: `fleet report`, for the reviewer of a pull request."""
