"""The catalogue of break reasons; docs/breaks has a page for each, with a program."""

from jitpkg.errors import Break, Reason

ASKED = Reason(
    "B101",
    "the program asks for a graph break",
    "jitpkg.graph_break() is called here.",
    "Remove the call.",
)
FORCED = Reason(
    "B102",
    "a break was forced here",
    "The setting disturb asks for breaks, to test that they change nothing.",
    "Unset the setting, or JITPKG_DISTURB in the environment.",
)
DATA_BRANCH = Reason(
    "B103",
    "a branch depends on a tensor's data",
    "Which way the program goes is known only when the tensor has been computed. The graph ends "
    "here; each way is compiled when it is first taken. Where one way only raises, or 16 calls in "
    "a row went the same way, the graph goes on, and the branch is looked at when it has run.",
    "Where both ways are cheap, compute both and choose with torch.where.",
)
DATA_VALUE = Reason(
    "B104",
    "a tensor's data becomes a Python value",
    "Python goes on with a number that is known only when the tensor has been computed.",
    "Keep the value a tensor: a tensor without dimensions works in arithmetic. Or move .item(), "
    ".tolist(), float() and their like out of the compiled function.",
)
DATA_SHAPE = Reason(
    "B105",
    "the shape of a result depends on a tensor's data",
    "How large the result is becomes known only when the op has run.",
    "Use a form with a fixed shape: torch.where(mask, x, 0) in place of x[mask].",
)
PRINT = Reason(
    "B106",
    "something is printed",
    "Output has to appear at its moment, after what runs before it and before what comes next.",
    "Return what is to be printed, and print it outside of the compiled function.",
)
FOREIGN_CALL = Reason(
    "B107",
    "a call of something that is not written in Python",
    "What compiled code of an extension does cannot be seen, so it is called for real.",
    "Move the call out of the compiled function, or write what it does with torch operations.",
)
OPAQUE = Reason(
    "B108",
    "an object of a kind that tracing does not know",
    "What using the object does is not known, so Python does it. An iterator that was begun before "
    "the graph, as that of a loop with a break in it, counts among them where it does not come to "
    "its end in the graph: the loop's body is a graph then, and each iteration calls it.",
    "Before the compiled function, take out of the object what is needed; tensors, numbers, "
    "strings, containers and objects of classes written in Python are all known.",
)
UNUSUAL_TENSOR = Reason(
    "B109",
    "a tensor of an unusual kind",
    "Tensors that are not plain strided memory (sparse, quantized, nested, conjugated) have rules "
    "of their own, and so have some subclasses of tensors: those that torch defines, such as "
    "DTensor, and those whose __torch_dispatch__ is asked under autocast, or for gradients.",
    "Convert it to a plain tensor before: x.to_dense(), x.resolve_conj(), x.as_subclass(...).",
)
NO_FACTS = Reason(
    "B110",
    "an op whose result cannot be described",
    "What shape and dtype the op returns cannot be told without running it.",
    "For an op of your own, register a fake implementation (torch.library.register_fake).",
)
TENSOR_USE = Reason(
    "B111",
    "a use of a tensor that has to happen for real",
    "It reads or changes something that belongs to the real tensor and not to its values: "
    "gradients, hooks, history, memory.",
    "Move it out of the compiled function.",
)
GENERATOR = Reason(
    "B112",
    "a yield, an await, or another suspension of the function itself",
    "A suspended frame is Python's own. What lies between two suspensions is compiled.",
    "Nothing need be done.",
)
STATEMENT = Reason(
    "B113",
    "a statement that tracing does not do",
    "Class statements, first imports, except* and their like are executed by Python.",
    "Move it out of the compiled function: classes and imports to the top of the module.",
)
RAISES = Reason(
    "B114",
    "an exception is raised",
    "The real statement raises the real exception, at its own line.",
    "Nothing need be done.",
)
DISABLED = Reason(
    "B115",
    "a function that is not to be compiled",
    "It is marked by disable or disallow_in_graph, of jitpkg or of torch.compiler, so it is called "
    "as it is.",
    "Remove the mark, or move the call out of the compiled function.",
)
LIBRARY = Reason(
    "B116",
    "a function of a library that is never traced",
    "What it does goes beyond tensors and plain Python objects (files, clocks, threads, arrays of "
    "other libraries), so it is called for real.",
    "Move the call out of the compiled function, or use what torch has for it.",
)
TOO_DEEP = Reason(
    "B117",
    "calls nest too deeply",
    "Tracing follows calls to a limited depth.",
    "Turn a deep recursion into a loop.",
)
TOO_LONG = Reason(
    "B118",
    "the trace is too long",
    "Loops are unrolled while tracing, and this one is very long.",
    "Express the loop as operations on larger tensors, or compile the loop's body only.",
)
NOT_REBUILT = Reason(
    "B119",
    "a value that cannot be handed back to Python is alive at a break",
    "Something that exists only inside the trace, as a started generator does, would have to exist "
    "for the code after the break. The break moves to before it was made.",
    "Move the break out of the block or loop that uses the value.",
)
HANDLED_FAILURE = Reason(
    "B120",
    "an op that may fail, after a tensor was changed in place, and a handler for that",
    "If the op fails, the change must have happened, and the except or with block of the program "
    "must run. So a new graph begins between the two. A finally or with block that only puts "
    "something back and lets the exception pass is no break.",
    "Change tensors in place after try and with blocks, not in them or before them.",
)
IDENTITY = Reason(
    "B121",
    "the identity of an object that does not exist yet",
    "While tracing there are no objects whose id() or address could be told, and whether two equal "
    "numbers or strings are one object is Python's choice.",
    "Compare by ==, and use keys of the program's own in place of id().",
)
ATTRIBUTE = Reason(
    "B122",
    "an attribute that is found in an unusual way",
    "A descriptor written in C, a custom __getattribute__ or the like answers the access.",
    "Read the attribute before, and hand its value to the compiled function.",
)
MUTATION = Reason(
    "B123",
    "a change of something that other code is compiled against",
    "Classes, functions and modules are changed for real, and not in the middle of a graph.",
    "Move the change out of the compiled function.",
)
UNORDERED = Reason(
    "B124",
    "the order of a set is observed",
    "In which order a set gives its elements depends on their hashes, and on how the set grew.",
    "Walk sorted(s), or use a list or a dict.",
)
UNSUPPORTED = Reason(
    "B125",
    "something that tracing does not do yet",
    "jitpkg has no rule for it, so Python does it.",
    "Nothing need be done; if it matters for speed, please report it.",
)
FRAMES = Reason(
    "B126",
    "the frame itself is looked at",
    "locals(), sys._getframe() and their like see the real frame.",
    "Move it out of the compiled function.",
)
RANDOM_STATE = Reason(
    "B127",
    "torch's global state is changed or asked for",
    "Seeds, default dtype, number of threads and their like belong to the process. (Grad mode and "
    "autocast are part of the graph, where they are set to plain values.)",
    "Do it outside of the compiled function.",
)
RECURRENCE = Reason(
    "B128",
    "a recurrent layer that is trained, or that runs on a GPU",
    "In the graph it would be unrolled into the ops of each step in time, which takes a minute to "
    "compile for 200 steps, and again for each other length. torch has one call for all of them.",
    "Nothing need be done. With fullgraph=True it stays in the graph, all of which runs op by op.",
)
MISSING_IN_TORCH = Reason(
    "B129",
    "a part of PyTorch that jitpkg relies on is missing",
    "It is no public part, and this version of PyTorch has it no more, or not yet, or it does not "
    "behave as it did. Only what needs it is called as it is.",
    "Look for a newer jitpkg, or use a PyTorch that it was tested with; `python -m jitpkg doctor` "
    "says which these are, and what else is missing.",
)
AUTOGRAD_FUNCTION = Reason(
    "B130",
    "an autograd.Function that does more than compute",
    "Its forward or its backward reads a tensor that it is not given, changes something that was "
    "there before, or does what cannot be traced. Whoever runs the graph may call them at another "
    "moment, so Python calls this one.",
    "Give it what it reads as arguments, and let it return what it computes.",
)
CHECKPOINT = Reason(
    "B131",
    "a checkpoint of what is not the same when it is run twice",
    "torch.utils.checkpoint runs its function once more in the backward pass. Where that writes to "
    "something or changes a mode, where a policy says what is saved, or where torch would warn or "
    "refuse, it is called for real.",
    "Pass use_reentrant=False, and keep writes, modes and policies out of the function.",
)
BACKWARD = Reason(
    "B132",
    "a backward pass that is more than a part of the graph",
    "backward() and torch.autograd.grad() are part of a graph where all that they go through was "
    "computed there, from leaves without hooks. Else, or where they would raise, or backward() is "
    "to give gradients a history of their own, they are called for real.",
    "Compute the loss in the same compiled function, from leaves; do without hooks there.",
)
TRANSFORM = Reason(
    "B133",
    "a function transform, or control flow, of what does more than compute",
    "What vmap, grad and the other transforms of torch.func are given is a part of the graph where "
    "it computes with what it is given, and nothing else is changed; so are the functions that "
    "torch.cond, while_loop, scan and map are given. Else, where gradients go through a loop, or "
    "where it would raise, torch's own function is called.",
    "Return what is computed, and change nothing inside; leave autocast, checkpoints and "
    "backward() outside.",
)
GUESSED = Reason(
    "B134",
    "something that must not happen in vain, after a branch on data whose way was guessed",
    "The graph goes on after a branch on a tensor's data of which one way only raises, or which "
    "has always gone the same way. It is looked at when the graph has run; if the guess was wrong, "
    "the original code runs, and nothing may have been changed by then. So the graph ends before a "
    "change.",
    "Nothing need be done. What is computed anew, not written in place, stays in the graph.",
)

NO_BREAKS = (RAISES, GENERATOR, FORCED)
"""Reasons that `fullgraph=True` does not mind: the program leaves, is suspended, or is tested."""

FRAME_LIBRARIES = ("_warnings.", "inspect.", "logging.", "traceback.", "warnings.")
"""Libraries whose functions look at the frames of their callers."""


def looks_at_frames(graph_break: Break) -> bool:
    """Whether what breaks the graph would notice a frame more than the program has."""
    if graph_break.reason in (LIBRARY, FOREIGN_CALL):
        return graph_break.detail.startswith(FRAME_LIBRARIES)
    return graph_break.reason is FRAMES


CATALOGUE: tuple[Reason, ...] = tuple(
    value for value in dict(globals()).values() if isinstance(value, Reason)
)
"""Every reason, by code."""
