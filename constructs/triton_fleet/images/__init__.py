"""The Triton images of AWS and of one's own."""
