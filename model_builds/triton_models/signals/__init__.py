"""What happens to each model, as its clients see it: counts of each minute and hour, in objects of S3."""
