"""People's own kinds of models, tiny and with random weights."""
