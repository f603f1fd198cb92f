"""config.pbtxt: read, written, and compared."""
