"""What ATen ops mean, as definitions of the kernel IR: one row each."""
