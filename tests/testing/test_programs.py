"""Random programs: what is written runs, what is wrong is found, and becomes a small test."""

import ast
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, find, given, settings

import jitpkg
from jitpkg.errors import InvalidArgument
from jitpkg.testing import Comparison, NotTheSame
from jitpkg.testing.programs import GRAMMAR, Mode, Program, check, generate, shrunk
from jitpkg.testing.programs.bulk import Answer, Chunk, Findings, ranges
from jitpkg.testing.programs.checking import Statistics
from jitpkg.testing.programs.modes import HOW_COMPUTED
from jitpkg.testing.programs.record import Record
from jitpkg.testing.programs.training import TRAINING
from jitpkg.testing.programs.worker import named, of_seed
from jitpkg.testing.strategies import programs

SEEDS = int(os.environ.get("JITPKG_TEST_EXAMPLES", "0")) or 60


@pytest.mark.parametrize("part", range(4))
def test_programs_do_the_same_compiled(part: int) -> None:
    found = []
    for seed in range(part, SEEDS, 4):
        program, mode = of_seed(seed)
        outcome = check(program, mode)
        if outcome.is_fault:
            found.append(f"seed {seed}: {outcome.kind}\n{outcome.said}\n{program}")
    jitpkg.reset()
    assert not found, "\n".join(found)


@pytest.mark.parametrize("part", range(2))
def test_programs_that_are_trained(part: int) -> None:
    """They do the same, too; and most of what they are written for comes to graphs."""
    found = []
    statistics = Statistics()
    for seed in range(part, SEEDS, 2):
        program, mode = of_seed(seed, TRAINING)
        outcome = check(program, mode, statistics)
        if outcome.is_fault:
            found.append(f"seed {seed}: {outcome.kind}\n{outcome.said}\n{program}")
    jitpkg.reset()
    assert not found, "\n".join(found)
    assert statistics.graphs > SEEDS / 4


def test_the_grammar_of_training() -> None:
    TRAINING.check()
    sources = [generate(seed, TRAINING).source for seed in range(60)]
    for what in (
        "autograd.Function",
        "checkpoint.checkpoint(",
        "register_hook",
        "requires_grad_()",
    ):
        assert sum(what in source for source in sources) > 10


def test_most_programs_run_to_their_end() -> None:
    statistics, same = Statistics(), Mode("eagerly", {"compile": lambda target: target})
    verdicts = Counter(check(generate(seed), same, statistics).verdict for seed in range(120))
    assert statistics.raised < 0.6 * statistics.calls
    assert verdicts["left out"] < 20


TWICE = """import torch
def program(x):
    x = x.detach().requires_grad_()
    x.register_hook(lambda grad: None)
    w = (x * 2).exp()
    {more}
    (x * 3).exp().sum().backward()
    return w
"""


@pytest.mark.parametrize("more", ["pass", "w = w if torch.compiler.is_compiling() else w * 2"])
@pytest.mark.parametrize("listed", [False, True])
def test_two_backward_passes_of_one_graph_are_left_out(more: str, listed: bool) -> None:
    """Where that is the only difference."""
    source = TWICE.format(more=more)
    if listed:
        alone = "(x * 3).exp().sum()"
        source = source.replace(
            f"{alone}.backward()", f"torch.autograd.backward([{alone}, x.sum()])"
        )
    program = Program(source, ("call(torch.ones(2))",))
    how = {"backend": "jitpkg", "ignore": HOW_COMPUTED, "settings": {"never_worse": False}}
    outcome = check(program, Mode("jitpkg", how))
    if more == "pass":
        assert outcome.verdict == "left out"
        assert "two results" in outcome.kind
    else:
        assert outcome.is_fault


WRITTEN = """import torch
def program(x):
    d = x.detach().requires_grad_()
    y = torch.maximum(x, d)
    x.sub_(y)
    x.sum().backward()
"""


@pytest.mark.parametrize(
    ("how", "verdict"),
    [
        ({"backend": "jitpkg", "options": {"backward": "aot"}}, "left out"),
        ({"backend": "jitpkg"}, "same"),
        ({"backend": "eager"}, "same"),
    ],
)
def test_gradients_of_what_was_written_to_are_left_out(how: dict[str, Any], verdict: str) -> None:
    """Eager code has saved it, and refuses. AOTAutograd has saved which of the two is larger."""
    how = {**how, "ignore": HOW_COMPUTED, "settings": {"never_worse": False}}
    outcome = check(Program(WRITTEN, ("call(torch.ones(2))",)), Mode("written", how))
    assert outcome.verdict == verdict


OVERFLOWING = """import torch
def program(x):
    if x.sum() < 0:
        return x / 2
    return x / 3"""


def from_the_end(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    return _with_sums(gm, lambda x: x.flip(0).sum())


def without_the_first(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    return _with_sums(gm, lambda x: x[1:].sum())


def _with_sums(gm: torch.fx.GraphModule, sum_: Callable[[Any], Any]) -> Any:
    for node in gm.graph.find_nodes(op="call_method", target="sum"):
        node.op, node.target = "call_function", sum_
    gm.recompile()
    return gm.forward


@pytest.mark.parametrize(
    ("backend", "verdict"), [(from_the_end, "left out"), (without_the_first, "differs")]
)
def test_the_order_in_which_a_sum_overflows_is_left_out(backend: Any, verdict: str) -> None:
    numbers = "-torch.inf, 3e38, 3e38" if verdict == "left out" else "-3.0, 1.0, 1.0"
    program = Program(OVERFLOWING, (f"call(torch.tensor([{numbers}]))",))
    assert check(program, Mode("other", {"backend": backend})).verdict == verdict


def test_a_seed_is_a_program() -> None:
    for seed in range(60):
        program = generate(seed)
        assert program == generate(seed)
        ast.parse(program.as_test())
    assert len({generate(seed).source for seed in range(60)}) > 55


def test_programs_use_most_of_the_grammar() -> None:
    sources = "\n".join(generate(seed).source for seed in range(400))
    kinds = {type(node).__name__ for node in ast.walk(ast.parse(sources))}
    assert kinds >= set(
        """
        Assert AugAssign Break Call ClassDef Continue Delete DictComp ExceptHandler For FunctionDef
        GeneratorExp Global IfExp JoinedStr Lambda ListComp Match MatchMapping NamedExpr Nonlocal
        Raise SetComp Slice Starred Subscript Try While With Yield YieldFrom
        """.split()
    )


FEW = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


@FEW
@given(programs())
def test_programs_of_hypothesis(program: Program) -> None:
    assert not check(program, Mode("eager")).is_fault


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_hypothesis_makes_programs_small() -> None:
    smallest = find(
        programs(),
        lambda program: "cumsum" in program.source and "for " in program.source,
        settings=settings(
            max_examples=2000, deadline=None, derandomize=True, database=None,
            suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink],
        ),
    )  # fmt: skip
    assert len(smallest.source.splitlines()) < 36  # half of them have more than 50


def test_a_program_is_a_test() -> None:
    source = "import torch\n\ndef program(x, n):\n    return (x.mul_(n), n)\n"
    program = Program(source, ("call(torch.ones(2), n=3)", "call(torch.zeros(2), n=1.5)"))
    program.assert_same(Comparison())
    text = program.as_test("Comparison(dynamic=True)", doc="Seed 7")
    namespace: dict[str, Any] = {"__name__": "generated"}
    exec(compile(text, "<test>", "exec"), namespace)
    namespace["test_program"]()
    broken = program.as_test("Comparison(compile=lambda f: lambda x, n: (x, n))")
    exec(compile(broken, "<test>", "exec"), namespace)
    with pytest.raises(NotTheSame):
        namespace["test_program"]()


def test_faults_are_of_kinds() -> None:
    program = Program("def program(x):\n    return x\n", ("call(1)",))
    other = Mode("other", {"compile": lambda target: lambda x: x + 1})
    raising = Mode("raising", {"compile": lambda target: lambda x: x["a"]})
    assert check(program, other).kind == "result: value"
    assert check(program, raising).kind.startswith("raised: nothing eagerly, TypeError")
    assert check(program, Mode("eager")).verdict == "same"


def test_what_is_never_twice_the_same_is_left_out() -> None:
    source = "import time\n\ndef program():\n    return time.perf_counter_ns()\n"
    assert check(Program(source, ("call()",)), Mode("eager")).verdict == "left out"


# Grammars of one's own


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


OWN = GRAMMAR.with_rows(
    prelude="from tests.testing.test_programs import doubled",
    expressions="vec:\n    *800 doubled(<vec>)",
    statements="*20 with torch.no_grad():\n    <new:vec> = doubled(<vec>)\n    <block>",
)


def test_own_functions_are_called() -> None:
    sources = [generate(seed, OWN).source for seed in range(20)]
    assert sum("doubled(" in source for source in sources) > 15
    assert not check(generate(3, OWN), Mode("eager")).is_fault
    assert named("tests.testing.test_programs:OWN") is OWN


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"expressions": "vec:\n    f(<vektor>)"}, "a hole of the kind 'vektor'"),
        ({"expressions": "vec:\n    !roundish <vec>"}, "Unknown mark !roundish"),
        ({"expressions": "f(<vec>)"}, "No kind is given for the row 'f(<vec>)'"),
    ],
)
def test_mistakes_in_rows(rows: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said.replace("(", r"\(").replace(")", r"\)")):
        GRAMMAR.with_rows(**rows)


@pytest.mark.parametrize("name", ["no.such:GRAMMAR", "math:pi", "math:nothing"])
def test_a_grammar_that_is_none(name: str) -> None:
    with pytest.raises(InvalidArgument):
        named(name)


# Processes

KILLING = GRAMMAR.with_rows(
    prelude="import os", statements="*2000 torch.compiler.is_compiling() and os._exit(3)"
)
EXITING = GRAMMAR.with_rows(prelude="import os", statements="*2000 os._exit(3)")
ENDLESS = GRAMMAR.with_rows(prelude="import itertools", statements="*2000 all(itertools.count(1))")
GREEDY = GRAMMAR.with_rows(prelude="import itertools", statements="*2000 list(itertools.repeat(0))")


def checked(grammar: str, count: int, timeout: float = 60) -> Findings:
    found = list(Chunk(range(count), f"tests.testing.test_programs:{grammar}", timeout).answers())
    assert [answer["seed"] for answer in found if "seed" in answer] == list(range(count))
    findings = Findings()
    for answer in found:
        findings.add(answer)
    return findings


def test_another_process_goes_on_after_one_that_died() -> None:
    findings = checked("KILLING", 4)
    assert "the process died (3)" in findings.faults
    assert "4 programs" in findings.summary(1)


@pytest.mark.parametrize(
    ("grammar", "timeout", "kind"),
    [
        ("EXITING", 60, "the process died (3) eagerly"),
        ("ENDLESS", 3, "took too long eagerly"),
        ("GREEDY", 60, "takes long"),
    ],
)
def test_what_eager_code_does_not_survive_is_left_out(
    grammar: str, timeout: float, kind: str
) -> None:
    findings = checked(grammar, 1, timeout)
    assert not findings.faults
    assert findings.left_out[kind], findings.left_out


def test_a_program_with_a_fault_is_made_small() -> None:
    pytest.importorskip("pysource_minimize")
    source = (
        "import torch\n\ndef program(x, n):\n    y = x + 1\n    for k in range(n):\n"
        "        if torch.compiler.is_compiling():\n            y = y - 1\n    return (y, n)\n"
    )
    program = Program(source, ("call(torch.ones(1), 1)", "call(torch.ones(1), 5)"))
    kind = check(program, Mode("eager")).kind
    assert kind == "result: values"
    small = shrunk(program, Mode("eager"), kind)
    assert "is_compiling()" in small.source
    assert len(small.source.splitlines()) < 9
    assert check(small, Mode("eager")).kind == kind


def test_answers_are_counted() -> None:
    findings = Findings()
    answers: list[Answer] = [
        {"seed": 1, "verdict": "same", "kind": "", "said": ""},
        {"seed": 2, "verdict": "differs", "kind": "a", "said": "…"},
        {"seed": 3, "verdict": "failed", "kind": "a", "said": "…"},
        {"statistics": {"calls": 4, "raised": 1, "graphs": 2, "ops": 6, "breaks": 1}},
    ]
    assert [findings.add(answer) for answer in answers] == [False, True, False, False]
    assert findings.faults == {"a": [2, 3]}
    assert "75% run to their end; 2 graphs of 3.0 ops" in findings.described()


def test_seeds_come_in_ranges() -> None:
    assert list(ranges([3, 4, 5, 9, 10, 1], 2)) == [
        range(1, 2), range(3, 5), range(5, 6), range(9, 11)
    ]  # fmt: skip
    assert list(ranges([])) == []


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "of" / "programs.jsonl"
    answers = [
        {"seed": 1, "verdict": "same", "kind": ""},
        {"seed": 2, "verdict": "differs", "kind": "result: value"},
        {"seed": 3, "verdict": "left out", "kind": "takes long"},
        {"seed": 4, "verdict": "same", "kind": ""},
        {"seed": 4, "verdict": "failed", "kind": "took too long"},
    ]
    with Record(path) as record:
        assert list(record.read(resume=True)) == []
        for answer in [*answers, {"statistics": {"calls": 1}}]:
            record.write(answer)
    with Record(path) as record:
        assert [one["seed"] for one in record.read(resume=True)] == [1, 3]
    with Record(path, "another:GRAMMAR") as record:
        assert list(record.read(resume=True)) == []
    with Record(path) as record:
        assert list(record.read(resume=False)) == []
    assert len(path.read_text().splitlines()) == 1
