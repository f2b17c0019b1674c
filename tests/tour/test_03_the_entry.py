"""3. An entry is Python source that one can read.

For each set of assumptions a function is generated: it tests the guards, calls the graph, and makes
the result. This is all that runs on the second call.
"""

import linecache

import torch

import jitpkg


def labelled(x, n):
    return {"label": "shifted", "y": x + n}


ENTRY = """\
    while True:
        try:
            # if not (type(n) is the_int and n == 3): break
            # if not (state_same()): break
            # if not (not mode_count()): break
            # if not (gettrace() is None): break
            # if not (saved_hooks(True) is None): break
            # if not (version(Tensor_names) == VERSION or same_Tensor()): break
            # x: float32[2]
            values = guards_hold(x, n)
            if values is None: break
        except missing as error:
            if from_outside(error): raise
            break
        try:
            if profiler['_is_profiler_enabled']: (add, ) = in_profile(graph, x)
            else: (add, ) = graph(x)
        except BaseException as error:
            again = on_failure(error, (x, n, ), (x, ))
            if again is None: return 1, None, ()
            (add, ) = again
        the_dict_2 = the_dict()
        the_dict_2['label'] = 'shifted'
        the_dict_2['y'] = add
        return -1, leave, the_dict_2
    return otherwise(x, n)
"""
"""The guards, which native code tests where it is started; the graph; what happens if that fails;
the result; -1, the exit `return`."""


def entries(function, *args) -> dict[str, str]:
    """The entries that the first call of a function in place makes, by name."""
    found = {}

    def note(event: jitpkg.events.Event) -> None:
        if isinstance(event, jitpkg.events.EntryAdded):
            found[event.entry] = event.source

    with jitpkg.events.STREAM.listening(note):
        jitpkg.jit(function)(*args)
    return found


def test_the_source_of_an_entry() -> None:
    sources = entries(labelled, torch.ones(2), 3)
    source = sources["labelled#0"]

    # What the function needs besides its arguments, it holds as defaults of its own.
    head, _, body = source.partition("\n")
    assert head.startswith("def entry(x, n, otherwise=None, compared=None, guards_hold=None, ")
    expected = ENTRY.replace("VERSION", body.partition("names) == ")[2].partition(" ")[0])
    assert body == expected

    # A debugger and a traceback see it.
    assert "".join(linecache.getlines("<jitpkg labelled#0>")) == source


def test_the_result_is_made_anew_by_each_call() -> None:
    def pair(x):
        made = [x + 1]
        return made, made

    compiled = jitpkg.compile(pair)
    first, second = compiled(torch.ones(1)), compiled(torch.ones(1))
    assert first[0] is first[1]
    assert first[0] is not second[0]
