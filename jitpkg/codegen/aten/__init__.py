"""From a graph of torch functions to a functional one of ATen ops, without AOTAutograd."""
