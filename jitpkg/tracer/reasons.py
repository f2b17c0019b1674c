"""The catalogue of break reasons."""

from jitpkg.errors import Break, Reason

ASKED = Reason(
    "B101",
    "graph_break() was called",
    "The program asks for a break here.",
    "Remove the call of jitpkg.graph_break().",
)
FORCED = Reason(
    "B102",
    "a break was forced here",
    "The setting break_anywhere or break_before asks for breaks, to test that they change nothing.",
    "Unset it.",
)
DATA_BRANCH = Reason(
    "B103",
    "a branch depends on a tensor's data",
    "Which way the program goes is known only when the tensor has been computed. Both ways are "
    "compiled, each when it is first taken.",
    "Where both ways are cheap, compute both and choose with torch.where.",
)
DATA_VALUE = Reason(
    "B104",
    "a tensor's data becomes a Python value",
    "Python code goes on with a number that is known only when the tensor has been computed.",
    "Keep the value a tensor (a tensor of no dimensions works in arithmetic), or move .item(), "
    ".tolist(), float() and their like out of the compiled function.",
)
DATA_SHAPE = Reason(
    "B105",
    "the shape of a result depends on a tensor's data",
    "How large the result is becomes known only when the op has run.",
    "Use a form with a fixed shape, as torch.where(mask, x, 0) in place of x[mask].",
)
PRINT = Reason(
    "B106",
    "something is printed",
    "Output has to appear at its moment, between what runs before and after it.",
    "Move the print out of the compiled function.",
)
FOREIGN_CALL = Reason(
    "B107",
    "a call of something that is not written in Python",
    "What a compiled extension does cannot be seen, so it is called for real.",
    "Move the call out of the compiled function, or write what it does with torch operations.",
)
OPAQUE = Reason(
    "B108",
    "an object of a kind that tracing does not know",
    "Nothing is known about what using the object does.",
    "Take what is needed out of the object before, or use plain Python objects and tensors.",
)
UNUSUAL_TENSOR = Reason(
    "B109",
    "a tensor of an unusual kind",
    "Tensor subclasses and tensors that are not plain strided memory have rules of their own.",
    "Convert it to a plain tensor before.",
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
    "It reads or changes something that belongs to the real tensor, not to its values.",
    "Move it out of the compiled function.",
)
GENERATOR = Reason(
    "B112",
    "a yield, an await, or another suspension of the function itself",
    "A suspended frame is Python's own; what lies between two suspensions is compiled.",
    "Nothing need be done.",
)
STATEMENT = Reason(
    "B113",
    "a statement that tracing does not do",
    "Class statements, imports, except* and their like are executed by Python.",
    "Move it out of the compiled function.",
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
    "It is marked by jitpkg.disable or torch.compiler.disable.",
    "Remove the mark, or move the call out of the compiled function.",
)
LIBRARY = Reason(
    "B116",
    "a function of a library that is never traced",
    "Logging, imports, introspection and their like have effects beyond tensors.",
    "Move the call out of the compiled function.",
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
    "Express the loop as operations on larger tensors.",
)
NOT_REBUILT = Reason(
    "B119",
    "a value that cannot be handed back to Python is alive at a break",
    "Something that exists only inside the trace, as a started generator does, would have to exist "
    "for the code behind the break. The break moves to before it was made.",
    "Move the break out of the block or loop that uses the value.",
)
HANDLED_FAILURE = Reason(
    "B120",
    "an op that may fail, after changes that cannot be taken back",
    "If the op fails, what was changed before it must have happened, and a handler of the program "
    "must run; so a new graph begins between the two.",
    "Change tensors in place outside of try and with blocks, and Python objects after them.",
)
IDENTITY = Reason(
    "B121",
    "the identity of an object that has none while tracing",
    "`is` and id() of numbers, strings and fresh objects are known only when they exist.",
    "Compare by ==.",
)
ATTRIBUTE = Reason(
    "B122",
    "an attribute that is found in an unusual way",
    "A C-level descriptor, a custom __getattribute__ or the like answers the access.",
    "Read the attribute before.",
)
MUTATION = Reason(
    "B123",
    "a change of something that other code is compiled against",
    "Classes, modules of libraries and shapes of existing tensors are changed for real.",
    "Move the change out of the compiled function.",
)
UNORDERED = Reason(
    "B124",
    "the order of an existing set is observed",
    "Two equal sets may be walked in different orders.",
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
    "locals(), sys._getframe and their like see the real frame.",
    "Move it out of the compiled function.",
)
RANDOM_STATE = Reason(
    "B127",
    "torch's global state is changed or read in a way that tracing does not follow",
    "Seeds, default devices and modes are the process's own.",
    "Move it out of the compiled function.",
)

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
