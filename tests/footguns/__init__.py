"""Small programs that show whether compiled code is told apart from eager code."""
