"""A graph of torch functions, and what is done to it before any ATen op is known."""
