"""What is left to AOTAutograd: its two backends, and graphs that our own backward declines."""
