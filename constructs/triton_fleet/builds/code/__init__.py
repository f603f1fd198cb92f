"""Programs that the template carries, each a file of its own."""
