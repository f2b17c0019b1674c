"""Assertions of the shared module are shown like a test's own."""

import pytest

pytest.register_assert_rewrite("tests.guards.support")
