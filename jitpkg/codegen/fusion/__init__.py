"""Which definitions become one kernel, and in which loops it computes them."""
