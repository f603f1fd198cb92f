"""What is claimed to be fast, measured against what a user would do instead, side by side in one run."""
