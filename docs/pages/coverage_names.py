"""The names that the programs of docs/coverage.md use, besides `x` and `n`."""

# ruff: noqa: F401

import bisect
import cmath
import collections
import contextlib
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import heapq
import inspect
import itertools
import json
import logging
import math
import numbers
import operator
import os
import random
import re
import statistics
import string
import sys
import threading
import time
import types
import typing
import warnings
import weakref

import numpy
import torch
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops import map as higher_order_map
from torch.nn.attention.flex_attention import create_mask, flex_attention


class A:
    k = 3

    @functools.cached_property
    def cached(self) -> int:
        return 3


@dataclasses.dataclass
class Data:
    a: int


class Colour(enum.Enum):
    RED = 1


class Sub(torch.Tensor):
    pass


class Doubled(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, classes, args=(), kwargs=None):
        result = super().__torch_function__(func, classes, args, kwargs or {})
        return result * 2 if func is torch.Tensor.sin else result


class Halved(torch.Tensor):
    @staticmethod
    def __new__(cls, half):
        return torch.Tensor._make_wrapper_subclass(cls, half.shape, dtype=half.dtype)

    def __init__(self, half):
        self.half_ = half

    @classmethod
    def __torch_dispatch__(cls, op, classes, args=(), kwargs=None):
        args = [each.half_ * 2 if isinstance(each, cls) else each for each in args]
        return op(*args, **kwargs or {})


class Swapped(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, classes, args=(), kwargs=None):
        return (torch.cos if func is torch.sin else func)(*args, **(kwargs or {}))


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * ctx.saved_tensors[0] * gradient


P = collections.namedtuple("P", "a b", defaults=[3])


def f(y):
    return (y * y).sum()


@functools.lru_cache
def remembered(k):
    return [k]


remembered(3)


@functools.lru_cache
def to_remember(k):
    return [k] * k


@functools.singledispatch
def dispatched(y):
    return y


@torch.jit.script
def scripted(y):
    return y * 2


@torch.library.custom_op("jitpkg_docs::twice", mutates_args=())
def twice(y: torch.Tensor) -> torch.Tensor:
    return y * 2


twice.register_fake(torch.empty_like)
disabled = torch.compiler.disable(torch.sin)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
w = torch.ones(4, requires_grad=True)
Q = torch.ones(1, 2, 4, 8)
ALLOWED = torch.tensor([True, False, True, True])
SUB = torch.ones(4).as_subclass(Sub)
HALVED = Halved(torch.ones(4, 4))
ARRAY = numpy.ones(4, dtype=numpy.float32)
LOGGER = logging.getLogger("docs.coverage")
kept: list[object] = []
