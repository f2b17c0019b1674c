"""5. Behind a break the code goes on compiled: hooks, exits and resume functions.

`jit` gives a function new code: the original one, with a hook at its start. When a trace ends
before an instruction, the point behind that instruction gets a hook, too. The call that finds this
out is in the middle of the old code, so it goes on in a resume function: the same code, entered at
that point. Later calls run the new code from its start.
"""

import dis
import sys

import torch

import jitpkg


def two_steps(x):
    y = x + 1
    jitpkg.graph_break()
    return y * 2


def test_the_code_is_the_original_with_hooks() -> None:
    original = two_steps.__code__
    jitpkg.jit(two_steps)
    stub = two_steps.__code__
    assert stub is not original
    assert len(stub.co_code) > len(original.co_code)

    # From outside it looks as before.
    for name in ("co_name", "co_filename", "co_firstlineno", "co_argcount", "co_freevars"):
        assert getattr(stub, name) == getattr(original, name)

    # The first call finds an exit, and goes on in a resume function. The next one that meets it
    # makes the function's new code, with all that is known by then.
    two_steps(torch.ones(1))
    assert two_steps.__code__ is stub
    two_steps(torch.ones(1))
    with_another_hook = two_steps.__code__
    assert with_another_hook is not stub
    assert len(with_another_hook.co_code) > len(stub.co_code)

    two_steps(torch.ones(1))
    assert two_steps.__code__ is with_another_hook

    # All instructions of the function are still there, for calls that no entry fits.
    names = {ins.opname for ins in dis.get_instructions(original)}
    assert names <= {ins.opname for ins in dis.get_instructions(with_another_hook)}


def test_an_exit_says_where_to_go_on_and_with_what() -> None:
    sources: dict[str, str] = {}

    def note(event: jitpkg.events.Event) -> None:
        if isinstance(event, jitpkg.events.EntryAdded):
            sources[event.entry] = event.source

    def three_values(x, n):
        y = x + n
        jitpkg.graph_break()
        return y * n

    with jitpkg.events.STREAM.listening(note):
        jitpkg.jit(three_values)(torch.ones(1), 4)
    before, behind = sources.values()

    # The entry before the break: the exit's number, and the locals and stack values for it.
    returned = [line.strip() for line in before.splitlines() if line.strip().startswith("return ")]
    assert returned[-2].startswith("return ")
    number, leave, values = returned[-2].removeprefix("return ").split(", ", 2)
    assert int(number) > 0
    assert leave == "leave"
    assert values.startswith("(add, ")

    # The entry behind it takes the locals as its arguments.
    assert behind.startswith("def entry(x, n, y, ")


def test_a_break_in_a_loop_costs_no_stack_and_is_compiled_once() -> None:
    depths = set()

    def loop(x, count):
        for _ in range(count):
            x = x + 1
            depths.add(depth())
        return x

    @jitpkg.disable
    def depth():
        frame, count = sys._getframe(), 0
        while frame is not None:
            frame, count = frame.f_back, count + 1
        return count

    heard: list[jitpkg.events.Event] = []
    compiled = jitpkg.jit(loop)
    for _ in range(2):
        compiled(torch.zeros(1), 3)
    depths.clear()
    with jitpkg.events.STREAM.listening(heard.append):
        assert compiled(torch.zeros(1), 3).item() == 3
    assert len(depths) == 1
    assert not any(isinstance(event, jitpkg.events.GraphCompiled) for event in heard)
