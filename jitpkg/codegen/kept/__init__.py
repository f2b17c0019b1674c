"""Whole graphs, kept on disk: what was made of one, by all that it was made from.

`key` says what that is; `plain` writes values down, `functions` generated functions, and `entry`
has what is kept: the text of functions, and object code. They run in this process, so only the
user's own files are read (see `codegen.cache.folder`); nothing is unpickled.
"""
