"""How an artifact's bytes are made: what is read, which blocks hold it, and all cores at work on it."""
