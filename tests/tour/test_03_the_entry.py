"""3. An entry is Python source that one can read.

For each set of assumptions a function is generated: it tests the guards, calls the graph, and hands
the result back. This is all that runs on the second call.
"""

import linecache

import torch

import jitpkg


def shifted(x, n):
    return {"y": x + n, "n": n}


ENTRY = """
    while True:
        try:
            if not (type(n) is the_int and n == 3): break
            if not (state_same()): break
            if not (not mode_count()): break
            if not (gettrace() is None): break
            if not (saved_hooks(True) is None): break
            if not (version(Tensor_names) == VERSION or same_Tensor()): break
            # x: float32[2]
            if not tensors_same(x): break
        except missing: break
        try:
            (add, ) = graph(x)
        except BaseException as error:
            if on_failure(error, (x, n, )):
                return 1, None, ()
            raise
        the_dict = dict()
        the_dict['y'] = add
        the_dict['n'] = n
        return -1, leave, the_dict
    return otherwise(x, n)
"""


def test_the_source_of_an_entry() -> None:
    explanation = jitpkg.explain(shifted)(torch.ones(2), 3)
    ((name, source),) = explanation.sources.items()
    assert name.endswith("shifted#0")
    print(source)


def test_a_debugger_and_a_traceback_see_it() -> None:
    explanation = jitpkg.explain(shifted)(torch.ones(2), 3)
    ((name, source),) = explanation.sources.items()
    assert "".join(linecache.getlines(f"<jitpkg {name}>")) == source
