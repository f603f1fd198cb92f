"""As many instances as the load needs, of the type that is wanted."""
