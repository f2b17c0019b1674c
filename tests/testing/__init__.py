"""`jitpkg.testing`."""
