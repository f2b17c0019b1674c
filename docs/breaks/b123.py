import torch


class Settings:
    calls = 0


SETTINGS_IN_USE = Settings()


def program(x):
    Settings.calls = 3
    return x + 1


def rewritten(x):
    SETTINGS_IN_USE.calls = 3
    return x + 1


def arguments():
    return (torch.ones(3),)
