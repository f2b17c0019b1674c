"""Two runs of a program, compared: copies to start from, facts that can be seen, differences."""
