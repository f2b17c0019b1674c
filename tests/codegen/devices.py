"""The devices that a test runs on: the CPU, and a GPU where there is one."""

import pytest
import torch

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
DEVICES = ("cpu", pytest.param("cuda", marks=needs_cuda))
