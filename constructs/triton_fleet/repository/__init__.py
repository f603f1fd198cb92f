"""Where models are kept, and the job that builds them."""
