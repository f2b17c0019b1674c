"""`import jitpkg.auto` installs the hook: it is not for the tests themselves."""

from jitpkg import auto

auto.uninstall()
