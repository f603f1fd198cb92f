"""What is given to a construct: its types, its values, and every mistake in one error."""
