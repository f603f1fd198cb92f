"""What happens to a model repository: publishing, looking, rolling back, deleting; one subject a file."""
