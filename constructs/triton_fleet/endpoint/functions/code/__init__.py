"""The code of the library's Lambda functions: each file is one function, complete in itself."""
