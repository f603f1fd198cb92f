"""What a declaration of a model can say: plain values, read in milliseconds without a framework."""
