"""Parts of the client: encoding, resolving names, deadlines, retries and errors."""
