"""Functions that hypothesis makes up: nested statements over a few variables, bound or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import strategies as st

Lines = list[str]

NAMES = st.sampled_from(["a", "b", "c"])
TEST = st.sampled_from(["a", "b > 1", "not c", "i", "a is b", "a < b <= 2", "note(a) and b"])
VALUE = st.sampled_from(
    [
        "1",
        "a + 1",
        "[a, b]",
        "note(b)",
        "(lambda: a)()",
        "[a for a in range(2)]",
        "[b for c in range(2) if c]",
        "[f() for f in [lambda: i for i in range(2)]]",
        "1 // (a - 1)",
        "a if b else c",
        "f'{a!r:>3}'",
        "note(*[a], **{'k': b})",
        "(b := a)",
        "sorted([2, a], key=lambda v: -v)",
    ]
)

SIMPLE = st.one_of(
    st.builds(lambda name, value: [f"{name} = {value}"], NAMES, VALUE),
    st.builds(lambda value: [f"note({value})"], VALUE),
    st.builds(lambda name: [f"del {name}"], NAMES),
    st.builds(lambda name: [f"{name} += 1"], NAMES),
    st.builds(lambda value: [f"return {value}"], VALUE),
    st.builds(lambda name: [f"raise ValueError({name})"], NAMES),
    st.sampled_from([["pass"], ["note(type(sys.exception()))"], ["note(sorted(locals()))"]]),
    st.sampled_from([["a, *b = note(1), note(2)"], ["(yield_ := note)(a)"], ["assert a, b"]]),
)
IN_LOOP = st.sampled_from([["break"], ["continue"], ["if a: break"], ["if b: continue"]])


def indented(lines: Lines) -> Lines:
    return [f"    {line}" for line in lines]


def blocks(statements: st.SearchStrategy[Lines]) -> st.SearchStrategy[Lines]:
    """One to three statements."""
    return st.lists(statements, min_size=1, max_size=3).map(
        lambda found: [line for lines in found for line in lines]
    )


def compound(statements: st.SearchStrategy[Lines]) -> st.SearchStrategy[Lines]:
    block = blocks(statements)
    loop = blocks(st.one_of(statements, IN_LOOP))
    return st.one_of(
        st.builds(
            lambda test, yes, no: [f"if {test}:", *indented(yes), "else:", *indented(no)],
            TEST,
            block,
            block,
        ),
        st.builds(
            lambda name, body, behind: [
                f"for {name} in range(3):",
                *indented(body),
                "else:",
                *indented(behind),
            ],
            st.sampled_from(["a", "i"]),
            loop,
            block,
        ),
        st.builds(
            lambda body: ["for k in note.count():", *indented(["if k > 2: break", *body])], loop
        ),
        st.builds(
            lambda body, kind, handler, last: [
                *("try:", *indented(body)),
                *(f"except {kind} as error:", *indented(["note(str(error))", *handler])),
                *("finally:", *indented(last)),
            ],
            block,
            st.sampled_from(["ValueError", "(NameError, TypeError)", "Exception"]),
            block,
            block,
        ),
        st.builds(
            lambda body, handler: [
                "try:",
                *indented(body),
                "except:",
                *indented([*handler, "raise"]),
            ],
            block,
            block,
        ),
        st.builds(
            lambda suppress, body: [f"with note.context({suppress}) as c:", *indented(body)],
            st.booleans(),
            block,
        ),
        st.builds(
            lambda name, body: [
                "def inner():",
                *indented([f"nonlocal {name}", *body]),
                "note(inner())",
            ],
            NAMES,
            block,
        ),
        st.builds(
            lambda body: [
                "def each():",
                *indented(["yield a", *body, "yield b"]),
                "note([*each()])",
            ],
            block,
        ),
    )


BODY = blocks(st.recursive(SIMPLE, compound, max_leaves=12))


def source(body: Lines) -> str:
    return "\n".join(["def made_up(note, a, b=2, *, i=0):", *indented([*body, "return a, b, i"])])


class Note:
    """What the functions call: it writes down what it is given."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def __call__(self, *values: Any, **named: Any) -> Any:
        self.log.append(f"{values} {named}")
        return values[0] if values else None

    def count(self) -> Iterator[int]:
        try:
            yield from range(5)
        finally:
            self("counted")

    @contextmanager
    def context(self, suppress: bool) -> Iterator[int]:
        self("in")
        try:
            yield 3
        except ValueError as error:
            self("out", str(error))
            if not suppress:
                raise
        finally:
            self("end")


def result(function: Callable[..., Any], a: Any) -> tuple[str, list[str]]:
    """What a call gives or raises, and the notes."""
    note = Note()
    try:
        got = repr(function(note, a))
    except Exception as error:
        chain, seen = [], error
        while seen is not None:
            chain.append(repr(seen))
            seen = seen.__context__  # type: ignore[assignment]
        got = f"raised {chain}"
    return got, note.log
