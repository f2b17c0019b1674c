"""What must still hold for compiled code to be right: sources, guards, and text made of them."""
