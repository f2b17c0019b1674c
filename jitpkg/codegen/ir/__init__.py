"""The kernel IR: tensors defined by their element at an index."""
