"""The model repository in S3: manifest, publishing, history, rollback, pruning."""
