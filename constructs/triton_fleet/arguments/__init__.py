"""The arguments of a construct: types, values, and every mistake in one error."""
