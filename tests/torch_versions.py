"""What differs between the versions of PyTorch that are supported."""

import pytest
import torch

RELEASE = tuple(int(part) for part in torch.__version__.split(".")[:2])

products_of_any_size = pytest.mark.skipif(
    RELEASE < (2, 12), reason="torch 2.11 compares sizes where batches of matrices are multiplied"
)
"""For tests that count compilations: each comparison that comes out otherwise needs another one."""
