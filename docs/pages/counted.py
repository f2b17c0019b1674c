"""The program of docs/hooks.md."""


def counted(values, known):
    total = 0
    for value in values:
        try:
            total += known[value]
        except KeyError:
            total += len(value)
    return total
