"""A `repr()` that is guarded against recursion: objects inside of themselves, and of others."""

import reprlib
from dataclasses import dataclass

import pytest
import torch

import jitpkg
from jitpkg import config

X = torch.ones(2)


@dataclass
class Node:
    value: object
    next: object = None


class Myself:
    def __init__(self):
        self.other = self

    @reprlib.recursive_repr("<me>")
    def __repr__(self):
        return f"Myself({self.other!r})"


def ring(length):
    first = last = Node(0)
    for k in range(1, length):
        last.next = last = Node(k)
    last.next = first
    return first


def twice():
    node = Node(1)
    return Node(node, Node(node))


def text(x, obj):
    return x + 1, repr(obj), f"{obj!r} {len(x)}"


@pytest.mark.parametrize(
    "make", [twice, Myself, *(lambda n=n: ring(n) for n in (1, 2, 3)), lambda: Node(0, ring(2))]
)
def test_the_text_of_an_object(make):
    compiled, obj = jitpkg.compile(text), make()
    for _ in range(3):
        assert compiled(X, obj)[1:] == text(X, obj)[1:]


def test_a_tree_is_no_break():
    with config.patch(disturb=""):
        tree = Node(1, Node([2], Node("a")))
        assert jitpkg.compile(text, fullgraph=True)(X, tree)[1:] == text(X, tree)[1:]


def inside(obj):
    return f"{X.sum().shape} {obj.other!r}"


@pytest.mark.parametrize("compiled", [inside, jitpkg.compile(inside)])
def test_what_is_traced_while_the_object_is_being_shown(compiled):
    class Shown:
        @reprlib.recursive_repr()
        def __repr__(self):
            return compiled(self)

    shown = Shown()
    shown.other = shown
    for _ in range(3):
        assert repr(shown) == "torch.Size([]) ..."
