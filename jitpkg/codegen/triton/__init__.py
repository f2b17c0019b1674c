"""Kernels for CUDA, as Triton source: the printer, and what runs it."""
