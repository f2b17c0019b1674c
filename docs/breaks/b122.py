import torch


class Meta(type):
    def __getattribute__(cls, name):
        return 2.0 if name == "scale" else super().__getattribute__(name)


class Settings(metaclass=Meta):
    pass


def program(x):
    return x * Settings.scale


def rewritten(x, scale):
    return x * scale


def arguments():
    return (torch.ones(3),)


def rewritten_arguments():
    return *arguments(), Settings.scale
