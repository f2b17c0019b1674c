"""A tour of the package: read the files in order, each shows one idea at work."""
