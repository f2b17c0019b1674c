"""Random sequences of operations on builtin objects: traced, they do what Python does.

A program is a function of text: each statement in a `try` of its own, whose exception is noted.
Its first arguments exist before the call, its other variables are made in the trace; after the call
the arguments, the variables, the results and which of them are the same object are compared.
"""

from __future__ import annotations

import copy
import itertools
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jitpkg
from jitpkg.comparison.facts import Fact, State
from tests.programs.running import difference

pytestmark = pytest.mark.timeout(300)

LISTS = ("la", "lb", "lc")
DICTS = ("da", "db", "dc")
SETS = ("sa", "sb", "sc")
DEQUES = ("qa", "qb")
TUPLES = ("ta", "tb")
TEXTS = ("wa", "wb")
NUMBERS = ("na", "nb")
ITERATORS = ("ia", "ib", "ic", "ie", "id")
ARGUMENTS = ("la", "lb", "da", "db", "sa", "sb", "qa", "ta", "wa", "na", "ia", "ib", "ic", "ie")

START = """
lc, dc, sc, qb, tb, wb, nb = [1, la], {"k": la, 2: x}, {1, 5}, deque([7], 3), (la, 2), "b-c", -1
id = iter(lc)
""".strip()

ATOMS = ("0", "1", "-1", "2", "3", "True", "None", "1.5", "'a'", "'k'", "''", "(1, 2)")
INDICES = ("0", "1", "-1", "2", "-3", "5", "na", "nb")
BOUNDS = ("", "0", "1", "-1", "2", "-3", "9", "na")

LIST_STATEMENTS = """
{l}.append({v})
{l}.extend({it})
{l} += {it}
{l}.insert({i}, {v})
{r} = {l}.pop()
{r} = {l}.pop({i})
{l}.remove({v})
{l}.reverse()
{l}.clear()
{l}.sort()
{l}.sort(key=str, reverse=True)
{l}[{i}] = {v}
{l}[{b}:{b2}] = {it}
{l}[::2] = {it}
{l}[{b}:{b2}] = {v}
{r} = {l}[::{n}], {t}[::{n}], {w}[::{n}]
del {l}[{i}]
del {l}[{b}:{b2}]
{l} *= {i}
{l} = {l2}
{l} = {l2}.copy()
{l} = {l2}[{b}:{b2}]
{l} = {l2}[::-1]
{l} = {l2} + {l3}
{l} = {l2} * {i}
{l} = [*{it}, {v}]
{l} = list({it})
{l} = sorted({it}, key=repr)
{l} = [v for v in {it} if v]
{l} = list(zip({it}, {it2}))
{l} = list(enumerate({it}, {i}))
{l} = list(map(str, {it}))
{l} = list(reversed({l2}))
{l} = list(itertools.chain({it}, {it2}))
{l} = list(itertools.islice({it}, {i}))
{l} = list(itertools.pairwise({it}))
{l} = [list(g) for _, g in itertools.groupby({it}, type)]
{r} = {l}[{i}]
{r} = {l}.index({v})
{r} = {l}.count({v})
{r} = {v} in {l}
{r} = {l} == {l2}, {l} != {l2}, {l} is {l2}
{r} = {l} < {l2}
{r} = len({l}), bool({l}), repr({l})
{r} = max({it}, key=str), min({it}, key=repr)
{r} = any({it}), all({it})
{r} = sum({it})
first, *rest = {it}; {r} = first, rest
first, second = {it}; {r} = second
for k in {l}: {l}.remove(k)
for k in {l}: {l}.insert(0, {v}) if len({l}) < 9 else {l}.clear()
for k in reversed({l}): {l}.append(k) if len({l}) < 9 else {l}.clear()
{r} = [next(i, 7) for i in [iter({l})] for _ in range(3)]
{l}.extend(10 // len(str(v)) - len({l}) for v in {it})
{l} += (1 // v for v in {it})
{r} = sum(1 / v for v in {it})
{r} = copy.copy({l}), copy.copy({d}), copy.copy({s})
""".strip().splitlines()

DICT_STATEMENTS = """
{d}[{v}] = {v2}
del {d}[{v}]
{r} = {d}[{v}]
{r} = {d}.get({v}), {d}.get({v}, {v2})
{r} = {d}.pop({v})
{r} = {d}.pop({v}, {v2})
{r} = {d}.popitem()
{r} = {d}.setdefault({v}, {v2})
{d}.update({d2})
{d}.update(z={v2})
{d}.update({it})
{d} |= {d2}
{d}.update((v, 1 // v + len({d})) for v in {it})
{d}.clear()
{d} = {d2}
{d} = {d2}.copy()
{d} = {d2} | {d3}
{d} = {{**{d2}, {v}: {v2}}}
{d} = dict({it})
{d} = dict(zip({it}, {it2}))
{d} = dict.fromkeys({it}, {v})
{d} = {{k: v for k, v in {d2}.items() if v}}
{d} = OrderedDict({d2})
{d} = defaultdict(list, {d2})
{d} = Counter({it})
{d}.move_to_end({v})
{d}.move_to_end({v}, last=False)
{d}[{v}].append({v2})
{d}[{v}] += 1
{r} = {v} in {d}
{r} = list({d}), list({d}.values()), list({d}.items())
{r} = list(reversed({d}))
{r} = {d} == {d2}, {d} is {d2}
{r} = len({d}), bool({d}), repr({d})
{r} = {d}.keys() & {d2}.keys()
{r} = {d}.keys() - {it}
{r} = {d}.keys() == {d2}.keys(), {v} in {d}.keys(), ({v}, {v2}) in {d}.items()
{r} = next(iter({d}))
{r} = type({d}).__name__
for k in {d}: {d}[{v}] = k
for k in list({d}): {d}.pop(k)
for k in {d}: {d}.pop(k); {d}[{v}] = {v2}
for k in {d}.values(): {d}.pop({v})
for k, v in {d}.items(): {d}[k] = {v}
for k in {d}: {d}.move_to_end(k)
{d2}[{v}] = {d}
""".strip().splitlines()

SET_STATEMENTS = """
{s}.add({v})
{s}.discard({v})
{s}.remove({v})
{r} = {s}.pop() if len({s}) == 1 else None
{s}.clear()
{s}.update({it})
{s} |= {s2}
{s}.update(1 // v for v in {it})
{s}.difference_update(v + 1 for v in {it})
{s} &= {s2}
{s} -= {s2}
{s} ^= {s2}
{s}.difference_update({it})
{s}.intersection_update({it})
{s}.symmetric_difference_update({it})
{s} = {s2}
{s} = {s2}.copy()
{s} = set({it})
{s} = frozenset({it})
{s} = {s2} | {s3}
{s} = {s2} & {s3}
{s} = {s2} - {s3}
{s} = {s2} ^ {s3}
{s} = {s2}.union({it}, {it2})
{s} = {{v for v in {it}}}
for k in {s}: {s}.add({v})
{r} = {v} in {s}
{r} = {s} == {s2}, {s} <= {s2}, {s} < {s2}, {s} is {s2}
{r} = {s}.isdisjoint({it}), {s}.issubset({it}), {s}.issuperset({it})
{r} = len({s}), bool({s})
{r} = sorted({s}, key=repr), sorted(list({s}), key=repr)
{r} = hash({s})
""".strip().splitlines()

OTHER_STATEMENTS = """
{q}.append({v})
{q}.appendleft({v})
{q}.extend({it})
{q}.extendleft({it})
{q}.extend(1 // v + len({q}) for v in {it})
{r} = {q}.pop()
{r} = {q}.popleft()
{q}.rotate({i})
{q}.insert({i}, {v})
{q}.remove({v})
{q}[{i}] = {v}
del {q}[{i}]
{q} = deque({it}, {i})
for k in {q}: {q}.append({v})
for k in {q}: {q}[{i}] = {v}
for k in {q}: {q}.rotate()
{q} = {q2}.copy()
{q} = {q} + {q2}
{q} += {it}
{r} = list({q}), {q}.maxlen, len({q}), {v} in {q}
{r} = {q} == {q2}, {q} < {q2}
{t} = {t2}
{t} = {t2} + ({v},)
{t} = tuple({it})
{t} = {t2}[{b}:{b2}]
{t} = {t2} * {i}
{r} = {t}[{i}]
{r} = {t}.index({v}), {t}.count({v})
{r} = {t} == {t2}, {t} is {t2}, {v} in {t}
{r} = {t} < {t2}
{r} = hash({t})
{w} = {w2} + {w}
{w} = {w2}[{b}:{b2}]
{w} = {w2}.upper().center(9, "*")
{w} = {w2}.replace("a", "bb")
{w} = str({v})
{w} = "{{}}-{{!r}}".format({v}, {l})
{w} = f"{{{v}!r:>6}}{{{n}:+d}}"
{w} = "%s|%r" % ({v}, {n})
{w} = "-".join({it})
{r} = {w}.split("-"), {w}.partition("b"), {w}.find("a"), {w} in {w2}
{r} = {w}[{i}]
{r} = {w}.index({v})
{n} = {n} + 1
{n} = {n} * {i}
{n} = {n} // {i}
{n} = {n} ** 2 % 7
{n} = int({w})
{n} = len({it})
{n} = round({n} / 3, 1)
{r} = divmod({n}, {i})
{r} = {n} < {v}
{r} = [{n}, float({n}), hex({n}), -{n}, ~{n}]
{r} = isinstance({v}, (int, str)), type({v}).__name__
{r} = {v} == {v2}, {v} != {v2}
{r} = {v} + {v2}
{r} = {v} and {v2}, {v} or {v2}, not {v}
{r} = x * {n}
jitpkg.graph_break()
{d}[{v}] = x
""".strip().splitlines()

ITERATOR_STATEMENTS = """
{r} = next({j}, 7)
{r} = next({j})
{r} = list({j})
{r} = [next({j}, 7), next({j2}, 8)]
{r} = [v for v, _ in zip({j}, range(2))]
{r} = [v for _, v in zip(range(2), {j})]
{r} = [(v, next({j}, 7)) for v in {j2}]
{r} = dict(zip({j}, {j2}))
{j} = iter({it})
{j} = {j2}
{j} = enumerate({j2}, 3)
{j} = zip({j2}, {it})
{r} = {v} in {j}, {j} in [{j2}]
{r} = any({j}), sum(1 for _ in {j2})
{r} = {j} is iter({j}), type({j}).__name__
for v in {j}: {l}.append(v) if len({l}) < 9 else {l}.clear()
for v in {j}: {l}.clear()
for v in {j}: {d}[{v}] = v
for v in {j}: {d}.pop({v}, 0); {r} = v
first, *rest = {j}; {r} = first, rest
first, second = {j}; {r} = second
for v in {j}: jitpkg.graph_break(); {r} = x + 1, v
{l}.append({j}); {r} = {l}.pop() is {j}
""".strip().splitlines()

STATEMENTS = {
    "list": LIST_STATEMENTS,
    "dict": DICT_STATEMENTS,
    "set": SET_STATEMENTS,
    "other": OTHER_STATEMENTS,
    "iterator": ITERATOR_STATEMENTS,
}
ALL = [statement for kind in STATEMENTS.values() for statement in kind]
ITERABLES = (
    *LISTS,
    *DICTS,
    *DEQUES,
    *TUPLES,
    *TEXTS,
    "range(3)",
    "[]",
    "la[:2]",
    "(1, 'a')",
    "[1, 3]",
)


@st.composite
def statements(draw: st.DrawFn) -> list[str]:
    """Some statements, with variables and constants filled in."""
    atoms = st.sampled_from((*ATOMS, *ATOMS, *LISTS, *TUPLES, *TEXTS, *NUMBERS))
    choices = {
        "l": LISTS, "l2": LISTS, "l3": LISTS, "d": DICTS, "d2": DICTS, "d3": DICTS,
        "s": SETS, "s2": SETS, "s3": SETS, "q": DEQUES, "q2": DEQUES, "t": TUPLES, "t2": TUPLES,
        "w": TEXTS, "w2": TEXTS, "n": NUMBERS, "i": INDICES, "b": BOUNDS, "b2": BOUNDS,
        "it": ITERABLES, "it2": ITERABLES, "j": ITERATORS, "j2": ITERATORS,
    }  # fmt: skip
    kind = draw(st.sampled_from(sorted(STATEMENTS)))
    pool = st.sampled_from((*STATEMENTS[kind], *STATEMENTS[kind], *ALL))
    found = []
    for template in draw(st.lists(pool, min_size=1, max_size=8)):
        names: dict[str, str] = {
            name: draw(st.sampled_from(values))
            for name, values in choices.items()
            if f"{{{name}}}" in template
        }
        names.update(v=draw(atoms), v2=draw(atoms), r="r")
        found.append(template.format(**names))
    return found


def source(lines: list[str]) -> str:
    body = [f"    {line}" for line in START.splitlines()]
    for k, line in enumerate(lines):
        body.append("    r = None")
        body.append("    try:")
        body.extend(f"        {part}" for part in line.split("; "))
        body.append("    except Exception as error: r = type(error).__name__, str(error)")
        body.append(f"    out.append(({k}, r))")
    variables = (*LISTS, *DICTS, *SETS, *DEQUES, *TUPLES, *TEXTS, *NUMBERS)
    body.append(f"    return x + 1, out, [{', '.join(variables)}]")
    return f"def program(x, out, {', '.join(ARGUMENTS)}):\n" + "\n".join(body) + "\n"


def arguments() -> tuple[Any, ...]:
    shared = [9]
    la, lb, da, ta = [3, 1, 2], ["b", "a", shared], {"a": 1, "b": shared}, (1, shared)
    ia, ib, ic = iter(la), iter(da.items()), zip(reversed(lb), range(5, 9), strict=False)
    next(ia)
    next(ic)
    return (
        torch.ones(1), [], la, lb, da, {}, {1, 2}, {"q"}, deque([1, 2, 3]), ta, "abc", 2,
        ia, ib, ic, enumerate(ta, 4),
    )  # fmt: skip


def left(iterator: Any) -> object:
    """What an iterator still gives."""
    try:
        return list(itertools.islice(iterator, 20))
    except RuntimeError as error:
        return str(error)


def outcome(text: str, *, compiled: bool) -> list[Fact]:
    namespace: dict[str, Any] = {
        "__name__": "tests.random_program",
        "deque": deque,
        "OrderedDict": OrderedDict,
        "defaultdict": defaultdict,
        "Counter": Counter,
        "itertools": itertools,
        "copy": copy,
        "jitpkg": jitpkg,
    }
    exec(compile(text, "<random program>", "exec"), namespace)
    program = jitpkg.jit(namespace["program"]) if compiled else namespace["program"]
    state = State()
    for call in range(2):
        given_arguments = arguments()
        result: object
        try:
            result = program(*given_arguments)
        except jitpkg.errors.JitpkgError:
            raise
        except Exception as error:
            result = (type(error).__name__, str(error))
        others = given_arguments[: -len(ITERATORS) + 1]
        state.add(f"call {call} arguments", others)
        state.add(f"call {call} result", result)
        state.add(f"call {call} left", [left(i) for i in given_arguments[len(others) :]])
    return state.facts


def check(lines: list[str]) -> None:
    text = source(lines)
    wrong = difference([outcome(text, compiled=False)], [outcome(text, compiled=True)])
    assert not wrong, f"{text}\n{wrong}"


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(statements())
def test_traced_statements_do_what_python_does(lines: list[str]) -> None:
    check(lines)


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(statements())
def test_statements_with_breaks_everywhere_do_what_python_does(lines: list[str]) -> None:
    with jitpkg.config.patch(disturb="break"):
        check(lines)
