import torch


def program(x, state, weights):
    hidden = torch.gru(x, state, weights, True, 1, 0.0, True, False, False)[0]
    return torch.relu(hidden) * 2


def rewritten(hidden):
    return torch.relu(hidden) * 2


def arguments():
    torch.manual_seed(0)
    layer = torch.nn.GRU(3, 4)
    return torch.randn(5, 2, 3), torch.zeros(1, 2, 4), list(layer.parameters())


def rewritten_arguments():
    x, state, weights = arguments()
    return (torch.gru(x, state, weights, True, 1, 0.0, True, False, False)[0],)
