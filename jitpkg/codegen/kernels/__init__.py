"""From a graph of ATen ops to kernels: the whole way, and what makes kernels."""
