"""Small programs, one for each feature of Python and PyTorch, run eagerly and compiled."""
