import json

import torch


def program(x, text):
    settings = json.loads(text)
    return x * settings["scale"]


def rewritten(x, settings):
    return x * settings["scale"]


def arguments():
    return torch.ones(3), '{"scale": 2}'


def rewritten_arguments():
    x, text = arguments()
    return x, json.loads(text)
