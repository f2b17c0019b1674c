"""Tests of jitpkg.guards: what must still hold, and what a change between two calls does."""
