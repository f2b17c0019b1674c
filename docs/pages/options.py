"""docs/options.md: arguments, settings, environment variables, logs."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from functools import partial
from itertools import takewhile

import torch

import jitpkg
from jitpkg import events, native
from jitpkg.codegen import options
from jitpkg.codegen.cpu.host import Host
from jitpkg.codegen.cpu.stages import stages
from jitpkg.codegen.fusion.groups import kernel_of
from jitpkg.codegen.fusion.kernel import Schedule
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.fusion.normal import Normaliser
from jitpkg.codegen.fusion.text import text_of_schedule
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import Buffer, Store
from jitpkg.codegen.lowering.table import Lowering
from jitpkg.config import STANCES, Options
from jitpkg.logs import TOPICS
from pages.text import attribute_docstrings, logged, scrubbed


def clipped(x, limit):
    norm = (x * x).sum().sqrt()
    if norm > limit:
        x = x / norm
    return x + 1


TOPIC_MEANINGS = {
    "graphs": "Each graph that a backend has compiled, as the code that `torch.fx` prints.",
    "guards": "What each new entry assumes, in words.",
    "kernels": "Each kernel of the backend `jitpkg`: what it computes, and its LLVM IR.",
    "schedules": (
        "The loops of each new kernel, after each pass that rewrites them; the last ones become "
        "LLVM IR, or Triton. `v0` is a value, `r0` a reduction, which is known after its loop. "
        "`keep` puts a value into memory, or registers, for the position of the loop, `take` "
        "finds it there. "
        "`jitpkg.explain` has the last of each kernel in `schedules`. A softmax:"
    ),
    "entries": (
        "The generated Python function of each entry: guards, call of the graph, results. Once a "
        "kernel has started native code, that tests them, and their text is a comment above."
    ),
    "breaks": "Each graph break, when a trace meets it: what, where, why, what to do.",
    "recompiles": "Why no entry fitted a call, for each entry; and when the limit is reached.",
    "gains": (
        "What each entry gains, once that is measured; which functions get their own code back; "
        "which are not compiled for now. As in:"
    ),
    "auto": (
        "What `python -m jitpkg run` and `jitpkg.auto` decide about modules and functions, as in:"
    ),
    "bytecode": "Each code object that a function gets, disassembled: see [one call](one-call.md).",
}

KINDS: tuple[tuple[str, str, str], ...] = (
    (
        "a Python function, `lambda`, generator function or coroutine function",
        "a function that follows it: its code, closure and the values of its defaults may change",
        "replaces the function's own code",
    ),
    (
        "a bound method",
        "a bound method",
        "compiles its function, for all objects",
    ),
    (
        "a `staticmethod` or `classmethod` in the body of a class",
        "one of the same kind",
        "compiles its function",
    ),
    (
        "a module",
        "a view of it: another object with the same class name, parameters, hooks and keys",
        "compiles its calls",
    ),
    (
        "a class",
        (
            "the class itself: calls of its instances run compiled from now on, as with "
            "torch.compile. To make instances is not compiled"
        ),
        "the same",
    ),
    (
        (
            "a `functools.partial`, a builtin (`operator.add`, `torch.addr`, `len`), an op, an "
            "object with `__call__`, what `functools.lru_cache` made, a bound method of one of "
            "these"
        ),
        (
            "an object that calls it compiled. Attributes are read from and written to the "
            "original, which is `__wrapped__`; copies and pickles are compiled anew; a class "
            "binds it where it would bind the original. Other special methods (`obj[0]`, "
            "`len(obj)`) are not there"
        ),
        "refuses it: it has no code that could be replaced",
    ),
    (
        "what `jitpkg.compile` returned",
        "a compiled version of the same original",
        "compiles it anew, in this way",
    ),
    (
        "what torch.compile returned for a function",
        "a compiled version of what torch.compile was given",
        "leaves it as it is, and says so",
    ),
    (
        "a function that is marked by `disable`, or of a library that is never traced (`re.sub`)",
        "the function itself; of a library's, a warning says so",
        "leaves it as it is, and says so",
    ),
    (
        "anything that cannot be called, as a `property` or `functools.partialmethod`",
        "refuses it",
        "refuses it",
    ),
)
"""What can be compiled, what `compile` returns for it, and what `jit` does."""

PAGE = """\
# Options

## Arguments

`jitpkg.jit` and `jitpkg.compile` take the arguments of `torch.compile`, by keyword.

| argument | values | meaning |
|---|---|---|
{arguments}

What cannot be is refused at once, with the list of what can. Of torch.compile's newer arguments
`shapes_spec` and `dynamic_shapes` are refused: `mark_dynamic` and `mark_static` say which sizes
vary.

## What can be compiled

| what | `jitpkg.compile` returns | `jitpkg.jit` |
|---|---|---|
{kinds}

Compiled code that calls a compiled function, object or view traces the original, so that both are
one graph, with the settings of the caller. What `lru_cache` made is called by Python where it
does more than compute a result from numbers, strings and objects (reason [B108](breaks/b108.md)).

## What `fullgraph=True` promises

A call whose function cannot be one graph raises `GraphBreak` with the reason, also where nothing
of it would be traced at all: a marked function, one of a library, a builtin of another library. A
call that would need more than `recompile_limit` entries raises `RecompileLimit`. Code that cannot
be hooked is refused by `compile` and `jit` at once. These are no errors:

- What the program raises itself, and `yield` and `await`: what lies between two suspensions is one
  graph.
- Surroundings in which nothing is traced: the setting `disable`, a debugger, an active
  torch-function mode (but for a default device) or torch-dispatch mode, `vmap` and `grad`, hooks
  for saved tensors (as where a `torch.utils.checkpoint` calls it that is not compiled itself). The
  original code runs then; `jitpkg.explain` says which of these it is, but for the setting.
- A call while another thread compiles: it runs the original code, and does not wait.
- A failure of a backend, or of `jitpkg`: the original code runs, and a warning says so.

## Options of the backend `jitpkg`

`options={{"precision": "fused"}}` gives one by name, and a mode gives some at once;
`jitpkg.list_options()` and `jitpkg.list_mode_options(mode)` list them. On a CPU `cudagraphs` is
taken, and changes nothing. Those of `inductor` are torch's.

With `cudagraphs`, on a GPU, a graph's first two calls run as they are; then what it launches is
recorded into memory of its own, and later calls replay that: forward and backward are graphs of
their own. Parameters and other inputs that do not move are read where they are, and other inputs
are copied. Results and gradients are copied out of the graph's memory, so that what a program
keeps never changes; what is only saved for the backward pass is not copied, and while any of it is
alive (several forward passes before one backward pass) the others run kernel by kernel. Random
numbers are those that eager code draws, in each replay. A graph that makes sizes out of data, has
sizes that vary, uses several devices, or draws random numbers by `randperm`, `multinomial` and
their like or in attention that drops something is not recorded: `explain` says why (`No CUDA
graph: ...`).

With `fused_random`, dropout, `rand`, `randn`, `randint`, `bernoulli` of a number, `uniform_`,
`normal_` and `exponential_` are parts of kernels: dropout of a large tensor takes a twentieth of
eager code's time, on one thread. The numbers are not those that eager code draws. One number of
torch's own stream is drawn at each call of a graph, as the seed: `torch.manual_seed` makes a
program repeatable, each call draws other numbers, and those of `torch.utils.checkpoint` are the
same twice. A number is a function of the seed, the op's place in the graph, and the element's
position: it depends on no threads, and not on what is fused. What takes a `generator=`, and other
random ops, draw eager code's numbers.

Tuning changes no bit of a result; it takes 50 to 500 ms more for a kernel, and gains up to
a third of the time of kernels that compute much (`exp`, `tanh`), and nothing for those that only
move memory.

| option | values | default | meaning |
|---|---|---|---|
{options}

| mode | sets |
|---|---|
{modes}

## Settings

Settings hold for the whole process, in every thread. They are read from the environment when
`jitpkg` is first used. `config.set` changes them for good, a `with` block or a decorator for a
while:

```python
import jitpkg

print(jitpkg.config.recompile_limit)
with jitpkg.config.patch(recompile_limit=2):
    print(jitpkg.config.recompile_limit)
jitpkg.config.set(recompile_limit=8)  # for good
```

```
8
2
```

| setting | environment variable | default | meaning |
|---|---|---|---|
{settings}

Switches take `1`, `true`, `yes`, `on` or `0`, `false`, `no`, `off`.

## Stances

`jitpkg.set_stance` says what a call does that would have to be compiled. It is a function, a
context manager and a decorator, and takes the stances of `torch.compiler.set_stance`:

```python
import torch
import jitpkg


@jitpkg.jit
def double(x):
    return x * 2


double(torch.ones(3))  # compiled
jitpkg.set_stance("fail_on_recompile")
double(torch.ones(3))  # what is compiled is used
try:
    double(torch.ones(5))
except jitpkg.errors.RecompileForbidden as error:
    print(error)
jitpkg.set_stance("default")
```

```
{forbidden}
```

| stance | a call that would have to be compiled |
|---|---|
{stances}

The setting `disable` goes further than `force_eager`: what `jitpkg.compile` is given while it is on
stays as it is for good.

## Callbacks

`jitpkg.on_compile_start` and `jitpkg.on_compile_end` call a function whenever something is
compiled, in the thread that compiles. They return a handle with `remove()`, which is a context
manager, too:

```python
import torch
import jitpkg


def double(x):
    return x * 2


with jitpkg.on_compile_start(lambda event: print("compiles", event.entry)):
    compiled = jitpkg.compile(double)
    compiled(torch.ones(3))
    compiled(torch.ones(3))
    compiled(torch.ones(5))
```

```
compiles double#0
compiles double#1
```

The event of `on_compile_end` has the `seconds` that it took.

## What is kept on disk

Kernels that were compiled to object code, and whole graphs with the functions that call them, are
kept for later processes of the same user, each under a hash of all that it was made from, so none
is ever out of date: a graph's has the functions and constants in it, the dtypes, sizes and strides
of its inputs, the options, torch's global state, the versions of Python, torch, LLVM and jitpkg,
and the processor, or of Triton and the GPU. A graph of functions that are not torch's own is not
kept; a CUDA graph is recorded by each process. They are in the platform's cache directory (on Linux
`~/.cache/jitpkg`); `JITPKG_CACHE_DIR` names another one, and `JITPKG_CACHE_DIR=off` keeps none. It
is read when the first graph is compiled.

Processes that want one graph at once, as the workers of a data loader or of a server do, wait for
the first of them to compile it: at most 20 seconds in vain, in all, after which a process
compiles for itself. Nothing waits for a process that was killed, in a directory without locks
(`lockf`), or while a signal's handler is to be called.

```
python -m jitpkg cache           # where they are, how many, and what they take; --json for programs
python -m jitpkg cache clear     # remove them, and no other file
python -m jitpkg cache export kernels.zip  # write them into one file
python -m jitpkg cache import kernels.zip  # add what is not here yet
```

`jitpkg.cache.info()`, `clear()`, `export_to(file)` and `import_from(file)` do the same. So a build,
or the first of many machines, compiles for all that have the same kind of processor and the same
versions: import the file where an image is made, or when a machine starts. What is imported is run,
so import only what you trust as you trust a program. Triton's binaries are not exported.

They take 512 MiB at most, with the binaries of Triton's; the least recently used go first. Object
code is run, so a directory that belongs to another user, or that others may write into, is not
used; one that is made has mode 0700. A file that a crash cut off, or a disk changed, counts as
absent. Where nothing can be written, a warning says so once, and kernels are kept in memory.

## Never worse

Compiled code that is slower than the original is not kept. Before an entry's fifth call, if all its
tensors are on the CPU, its graph runs a few times more, compiled and op by op in turn. Nothing can
be seen of that: results are dropped, what the graph writes to is copied before, random streams are
set back. To the ops is added what the function's own Python takes, estimated low by the number of
operations that were traced; to the compiled graph, what guards and results took at the calls
before. A measurement takes at most a quarter of what compiling took, or one run in each way.

Where every entry loses by more than 5%, twice, the function, or the part of it after a graph break,
gets its own code back.

Compiling in vain is bounded. A function that owes more than one second, a fifth of the program's
first 25 seconds, and a hundredth of what it has run since, is not compiled for other values until
entries have paid that back, or time has passed; nor are all such functions together. What is known
to gain counts as a quarter while the end is in sight: called as often as until then, it pays back
within 100 seconds. The first entry of a function that `jit` or `compile` was asked for is always
made. Of what `run` and `auto` compile, one more entry has to fit into the bound by what those
before it have cost, or half of the bound has to be free. While a function waits, entries that
nearly all calls pass by are not tried. What a module defines once more under the same name, as the
cell of a notebook does that is run again, counts as the same function: it is compiled while no
more than half of the bound is owed, and what it has cost counts whole until its calls have paid
that back. A function gets its own code back, too, once it has as many
entries as there may be and most calls fit none.

A model that a pickle brings to another process, such as a worker that was spawned, runs as it is
there until its calls have taken 0.3 seconds, about what loading the compiler takes, or something
else has loaded that. One that was compiled with `mode` or `options` does not wait.

The log topic `gains` tells of all this.

So the clock decides whether kernels or eager code compute a result, and the last bits of these may
differ. Nothing is measured, and everything is compiled at once, with `fullgraph=True`, with a
backend of your own, with `backend="eager"` or `"aot_eager"`, with `JITPKG_NEVER_WORSE=0`, and after
`torch.use_deterministic_algorithms(True)`.

## Memory of results

Fresh memory is slow: the operating system finds and clears each page when it is first written to,
which for a sum of two matrices of 64 MB takes several times as long as the sum. Results of 256 KiB
and more of the backend `jitpkg` on a CPU therefore lie in blocks that are kept when they are
dropped, and are used for the next results of their size. A block is dropped when torch frees the
tensor's storage, so not before the last view, NumPy array, saved value or other owner of it is
gone, in any thread.

`pool_megabytes` bounds what is kept and nobody uses: 512 MiB, that is eight matrices of 4,096 x
4,096 float32; the oldest go first, and nothing is kept of what is larger.
`JITPKG_POOL_MEGABYTES=0` keeps none. `jitpkg.release_memory()` frees what is kept, and so does
`jitpkg.reset()`.

## Logs

Logs go through Python's `logging`: topic `graphs` to the logger `jitpkg.graphs`, and so on, each
record with its event as `record.event`. A topic is switched on by `JITPKG_LOGS=graphs,breaks` or by
`jitpkg.set_logs("graphs,breaks")`; `all` stands for all. Without a handler of your own, records are
written to the standard error stream.

What follows is logged for this function, called first with `torch.ones(3)` and then with
`torch.ones(4)`, both times with `limit=1`:

```python
{source}```

{logs}

## Marks in a program

| mark | meaning |
|---|---|
| `jitpkg.disable(fn)` | `fn` is called as it is, and breaks the graph there: see below. |
| `jitpkg.disallow_in_graph(fn)` | The same, also for a function of torch, as `torch.sub`. |
| `jitpkg.allow_in_graph(fn)` | A call of `fn` is one node of the graph: see below. |
| `jitpkg.assume_constant_result(fn)` | `fn` is called while tracing: see below. |
| `jitpkg.graph_break()` | The graph ends here. |
| `jitpkg.mark_dynamic(x, dim, min=…, max=…)` | The [size varies](varying.md), in this range. |
| `jitpkg.maybe_mark_dynamic(x, dim)` | The size varies where the code allows it. |
| `jitpkg.mark_static(x, dim)` | The size is taken as it is. |

What is disabled may be a function, a method, a module or any other callable, compiled or not; of a
class, it is the calls of its instances.

Nobody looks inside a function that is allowed in graphs: what it reads besides its arguments is not
guarded, and what else it changes may change once more while it is traced. And nothing tests that a
function whose result is assumed to be constant would still return it. The second to fourth take a
list of functions, too. The marks that `torch.compiler.disable`, `allow_in_graph` and
`assume_constant_result` leave are respected.

## Log records and warnings of a program

`print` breaks the graph. A record of `logging`, or a warning, does not where nobody can tell that
it appears when the graph has run: it is of plain values (numbers, strings in ASCII, sizes, dtypes),
and all that becomes of it is text in a file or standard stream, by the standard library's own
handlers, formatters and functions. File, line and function are those of the call. Where a handler,
a filter, a formatter or a stream of the program's own would see it, or a filter turns the warning
into an exception, the call breaks the graph, and happens at its moment. What decides it is a guard,
so a handler that comes later is noticed. A record of a level that is switched off costs a guard.

An op that warns stays in the graph, and warns when it runs, with the program's file and line.

## Warnings

There are five, each a `jitpkg.errors.JitpkgWarning` at the line of the program that led to it:

- a function has reached `recompile_limit`; the warning says which guard failed last. Entries that
  exist stay in use, and other calls run the original code.
- a function that was to be compiled is one of a library that is never traced, or its code cannot be
  hooked; it runs as it was written.
- a backend failed; the original code runs.
- the cache on disk cannot be used; kernels are kept in memory.
- `jitpkg` itself failed; the original code runs, and we would like to hear of it. With
  `JITPKG_STRICT=1` it raises instead.

With `suppress_errors` off, the failures of a backend and of `jitpkg` raise; with `verbose` on, they
show the whole traceback.

## Verifying

With `verify_correctness` on, each new graph runs once more, op by op, on copies of its inputs; and
where a new entry is a whole call, the original code runs first, on copies of all that the call can
reach, its globals among them, and with the same random numbers. `IncorrectResult` is raised where
results, changes of arguments and globals, aliasing or random streams are not the same (floats: by
more than 64 units of their dtype's precision), and says where. What cannot be copied is not
verified, and while the copies are used other threads see them: this is for finding a mistake, not
for use. To compare exceptions, printed output and gradients as well, see
[Testing your own functions](testing.md).
"""


FORBIDDEN = (
    "double would be compiled, which the stance 'fail_on_recompile' forbids: the call fits nothing"
    " that is compiled, because x has size 5 in dim 0 instead of 3. Make all kinds of calls before"
    " the stance is set, or choose 'eager_on_recompile'."
)


def page() -> str:
    return PAGE.format(
        arguments="\n".join(_argument_rows()),
        kinds="\n".join(f"| {' | '.join(row)} |" for row in KINDS),
        options="\n".join(_option_rows()),
        modes="\n".join(_mode_rows()),
        settings="\n".join(_setting_rows()),
        forbidden=FORBIDDEN,
        stances="\n".join(f"| `{name}` | {what} |" for name, what in STANCES.items()),
        source=inspect.getsource(clipped),
        logs="\n\n".join(_log_sections()),
    )


def _argument_rows() -> list[str]:
    meanings = _documented_arguments()
    values = {
        "fullgraph": "`False`, `True`",
        "dynamic": "`None`, `False`, `True`",
        "backend": ", ".join(f"`{name!r}`" for name in ("eager", "aot_eager", "inductor", "jitpkg"))
        + ", a function",
        "mode": "`None`, " + ", ".join(f"`{mode!r}`" for mode in options.MODES),
        "options": "a dict",
        "name": "`None`, a string",
        "recompile_limit": "`None`, a number from 1 on",
        "isolate_recompiles": "`False`, `True`",
        "each": "of `jit`: a class of modules, a tuple of them, a function",
        "disable": "`False`, `True`",
    }
    return [f"| `{name}` | {values[name]} | {meanings[name]} |" for name in values]


def _documented_arguments() -> dict[str, str]:
    """From the docstring of `jit`."""
    doc = inspect.getdoc(jitpkg.jit) or ""
    section = doc.partition("Args:\n")[2].partition("\n\n")[0]
    joined = re.sub(r"\n +(?! *\w+: )", " ", textwrap.dedent(section))
    pairs = (line.partition(": ") for line in joined.splitlines())
    return {name.strip(): text[:1].upper() + text[1:] for name, _, text in pairs}


def _setting_rows() -> list[str]:
    meanings = attribute_docstrings(Options)
    return [
        f"| `{f.name}` | `JITPKG_{f.name.upper()}` | `{f.default!r}` | {meanings[f.name]} |"
        for f in dataclasses.fields(Options)
    ]


def _option_rows() -> list[str]:
    meanings = attribute_docstrings(options.Options)
    return [
        f"| `{f.name}` | {_values(f.name)} | `{f.default!r}` | {meanings[f.name]} |"
        for f in dataclasses.fields(options.Options)
    ]


def _values(option: str) -> str:
    return ", ".join(f"`{value!r}`" for value in options.possible(option))


def _mode_rows() -> list[str]:
    return [
        f"| `{mode!r}` | {', '.join(f'`{k}={v!r}`' for k, v in sets.items()) or 'nothing'} |"
        for mode, sets in jitpkg.list_mode_options().items()
    ]


def _softmax() -> Schedule:
    """The loops of a kernel, on a processor with registers of 256 bits."""
    b = Builder()
    lowering = Lowering(b)
    x = lowering.of_buffer(Buffer("x", torch.float32, (64, 1000), (1000, 1)))
    most = lowering.reduce("max", x, [1], keepdim=True)
    above = lowering.elementwise(lambda v, m: b.apply("exp", b.apply("sub", v, m)), [x, most])
    total = lowering.reduce("sum", above, [1], keepdim=True)
    made = lowering.elementwise(lambda v, t: b.apply("div", v, t), [above, total])
    out = Buffer("out", torch.float32, (64, 1000), (1000, 1))
    kernel = kernel_of("softmax", [Store(out, made.axes, made.value)])
    return schedule(Normaliser(b).normal(kernel).kernel, b)


SAMPLES: dict[str, tuple[events.Event, ...]] = {
    "gains": (
        events.Measured("step", "step#0", 412e-6, 1.31e-3, 2.2),
        events.Measured("scale", "scale#0", 4.1e-6, 2.6e-6, 0.031),
        events.GivenBack("scale", "it gains nothing: 4.1 us compiled, 2.6 us as it is"),
    ),
    "schedules": tuple(
        events.Scheduled("softmax", name, partial(text_of_schedule, made))
        for name, made in list(stages(_softmax(), Host(256)))[-1:]
    ),
    "auto": (
        events.ModuleSeen("model", 14),
        events.ModuleSeen("transformers", 0, "it is installed"),
        events.Begun("Block.forward", 2),
        events.GivenBack("read_config", "no tensor was in sight in 16 of its calls"),
    ),
}
"""What is logged of topics that depend on the clock, or on a whole program."""


def _sample(topic: str) -> str:
    texts = (TOPICS[topic](event) for event in SAMPLES[topic])
    return "\n".join(f"[jitpkg.{topic}] {text}" for text in texts if text is not None)


def _log_sections() -> list[str]:
    native.start()  # as a kernel does
    sections = []
    for topic in TOPICS:
        if topic in SAMPLES:
            shown = _sample(topic)
            sections.append(f"### {topic}\n\n{TOPIC_MEANINGS[topic]}\n\n```\n{shown}\n```")
            continue
        backend = "jitpkg" if topic == "kernels" else "eager"
        compiled = jitpkg.compile(clipped, backend=backend)
        lines = logged(topic, lambda: [compiled(torch.ones(n), 1) for n in (3, 4)])  # noqa: B023
        shown = scrubbed(lines[0 if topic != "bytecode" else -1])
        if topic == "bytecode":
            shown = "\n".join([*shown.splitlines()[:14], "…"])
        if topic == "kernels":  # the rest differs from one processor to the other
            head, *text = shown.splitlines()
            shown = "\n".join([head, *takewhile(lambda line: line.startswith(";"), text), "…"])
        if topic == "entries":
            first, _, rest = shown.partition("def entry(")
            shown = f"{first}def entry(x, limit, …):\n" + rest.partition("):\n")[2]
        sections.append(f"### {topic}\n\n{TOPIC_MEANINGS[topic]}\n\n```\n{shown}\n```")
    return sections
