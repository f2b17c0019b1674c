"""What holds for every test: a mistake of jitpkg's own is an error, not a warning, and nothing is
kept in the user's own cache."""

import atexit
import os
import shutil
import tempfile

import torch

os.environ.setdefault("JITPKG_STRICT", "1")

# Tests count entries: nothing may depend on how long something takes.
os.environ.setdefault("JITPKG_NEVER_WORSE", "0")

# Most tests are of tracing, and compare bit for bit; those of kernels say so.
os.environ.setdefault("JITPKG_BACKEND", "eager")

if not torch.cuda.is_available():  # before anybody imports Triton
    os.environ.setdefault("TRITON_INTERPRET", "1")

if "JITPKG_CACHE_DIR" not in os.environ:
    os.environ["JITPKG_CACHE_DIR"] = tempfile.mkdtemp(prefix="jitpkg-tests-")
    atexit.register(shutil.rmtree, os.environ["JITPKG_CACHE_DIR"], ignore_errors=True)
