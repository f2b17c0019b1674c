"""What an op returns: dtype, device, sizes and strides of a result from those of its arguments."""
