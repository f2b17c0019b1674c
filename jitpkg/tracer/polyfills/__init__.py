"""Library functions written in Python, which the tracer traces in place of the real ones."""
