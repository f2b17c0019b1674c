"""What holds for every test: a mistake of jitpkg's own is an error, not a warning."""

import os

os.environ.setdefault("JITPKG_STRICT", "1")
