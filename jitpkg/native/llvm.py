"""LLVM, in this process: IR text to object code, and object code to addresses.

The one importer of `llvmlite`, at the first use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from functools import cache
from types import ModuleType
from typing import Any

from jitpkg import forks
from jitpkg.dataclass import dataclass
from jitpkg.errors import NativeError

OLDEST = (0, 45)
"""The first llvmlite whose LLVM reads this IR (`ptr`, `splat`) and links without aborting."""

CODEGEN_LEVEL = 3
"""Of LLVM's code generator; no passes run on the IR. Level 0 aborts the process on vector code."""

LINKED_TOGETHER = 32
"""Libraries of one linker: it takes 170 KB, and 10 KB of each library that it ever linked."""

MARK = "jitpkg_object"
"""A symbol of every object: asking for it makes LLVM link the object at once."""

CALLS = "calls @"
"""Begins a comment, as in `; calls @kernel: i32 (ptr, i64)`: LLVM does not compare a call's types
with the function's, which would crash."""


_LOCK = forks.lock(waits=True)
"""Held while LLVM starts, compiles or links."""


@dataclass(frozen=True, eq=False)
class Llvm:
    """What llvmlite offers on this machine."""

    binding: ModuleType
    version: str
    triple: str
    cpu: str
    features: Mapping[str, bool]
    machine: Any
    """What generates code; one thread at a time."""
    linkers: _Linkers

    @property
    def target(self) -> str:
        """All that object code depends on, besides its text."""
        features = ",".join(name for name, there in sorted(self.features.items()) if there)
        return f"{self.triple} {self.cpu} {features} llvmlite {self.version} O{CODEGEN_LEVEL}"


def llvm() -> Llvm:
    """LLVM, started.

    Raises:
        NativeError: it cannot be used; the message says why.
    """
    with _LOCK:
        found = _started()
    if isinstance(found, str):
        raise NativeError(found)
    return found


@cache
def _started() -> Llvm | str:
    try:
        import llvmlite
        import llvmlite.binding as binding
    except (ImportError, OSError) as error:
        return f"llvmlite cannot be imported ({error}); `pip install jitpkg[cpu]` brings it"
    version = str(llvmlite.__version__)
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST:
        return f"llvmlite {version} is too old: {'.'.join(map(str, OLDEST))} is needed"
    try:
        return _start(binding, version)
    except RuntimeError as error:
        return f"llvmlite {version} does not know this machine: {error}"


def _start(binding: ModuleType, version: str) -> Llvm:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    kind = binding.Target.from_default_triple()
    cpu = binding.get_host_cpu_name()
    try:
        features = dict(binding.get_host_cpu_features())
    except RuntimeError:  # LLVM cannot find out on every kind of machine
        features = {}
    switches = ",".join(f"{'+' if there else '-'}{name}" for name, there in features.items())

    def machine() -> Any:
        return kind.create_target_machine(
            cpu=cpu,
            features=switches,
            opt=CODEGEN_LEVEL,
            codemodel="jitdefault",
            jit=True,
        )

    linkers = _Linkers(binding, machine)
    return Llvm(binding, version, kind.triple, cpu, features, machine(), linkers)


def compile_ir(text: str) -> bytes:
    """Object code for the text of a module.

    Raises:
        NativeError: LLVM is not there, or the text is not a valid module.
    """
    using = llvm()
    text = f"{text}\n@{MARK} = constant i32 1\n"
    with _LOCK, ExitStack() as made:
        # A context of its own, since the global one keeps each type and constant for ever; closed
        # after its module, which the garbage collector would not see to.
        context = made.enter_context(closing(using.binding.create_context()))
        try:
            module = using.binding.parse_assembly(text, context)
        except RuntimeError as error:
            place = re.search(r"<string>:(\d+):", str(error))
            line = int(place[1]) if place else 1
            raise NativeError(_refused("read", str(error), text, line)) from None
        made.enter_context(closing(module))
        try:
            module.verify()
        except RuntimeError as error:
            line = _mentioned(str(error), text)
            raise NativeError(_refused("verify", str(error), text, line)) from None
        for call in re.finditer(rf"^; {CALLS}(\S+): (.*)$", text, re.MULTILINE):
            _check_call(module, call[1], call[2])
        module.triple = using.triple
        module.data_layout = str(using.machine.target_data)
        return bytes(using.machine.emit_object(module))


def _check_call(module: Any, name: str, wanted: str) -> None:
    found = str(module.get_function(name).global_value_type)
    if found != wanted:
        raise NativeError(f"{name!r} is {found}, and is called as {wanted}")


def _refused(verb: str, error: str, text: str, line: int) -> str:
    lines = text.splitlines()
    first, last = max(1, line - 4), min(len(lines), line + 4)
    shown = "\n".join(
        f"{'>' if k == line else ' '} {k:4} {lines[k - 1]}" for k in range(first, last + 1)
    )
    return f"LLVM cannot {verb} this code: {error.strip()}\n{shown}"


def _mentioned(error: str, text: str) -> int:
    """The first line of `text` that a verifier's message quotes."""
    quoted = {line.strip() for line in error.splitlines()}
    lines = enumerate(text.splitlines(), 1)
    return next((k for k, line in lines if line.strip() and line.strip() in quoted), 1)


class Library:
    """Object code, in memory for as long as this lives."""

    def __init__(self, linker: Any, name: str, tracker: Any, needs: object) -> None:
        self._linker = linker
        self._name = name
        self._needs = needs
        # Any tracker that is let go of frees the code, those of lookups too.
        self._trackers = {MARK: tracker}

    def find(self, symbol: str) -> int | None:
        """The address of a symbol, where there is one."""
        with _LOCK:
            if symbol not in self._trackers:
                try:
                    self._trackers[symbol] = self._linker.lookup(self._name, symbol)
                except RuntimeError:
                    return None
            return int(self._trackers[symbol][symbol])

    def address(self, symbol: str) -> int:
        """The address of a symbol.

        Raises:
            NativeError: the object code does not define it.
        """
        found = self.find(symbol)
        if found is None:
            raise NativeError(f"the object code does not define {symbol!r}")
        return found


def link(object_code: bytes, imports: Mapping[str, int], needs: object = None) -> Library:
    """Put object code into memory; `imports` says where what it does not define is.

    `needs` lives as long as the code.

    Raises:
        NativeError: LLVM is not there, this is no object code, or a symbol is missing.
    """
    using = llvm()
    builder = using.binding.JITLibraryBuilder().add_object_img(object_code)
    sleef = b"Sleef_" in object_code  # a quick look for many names
    for name, address in imports.items():
        if (sleef or not name.startswith("Sleef_")) and name.encode() in object_code:
            builder.import_symbol(name, address)
    with _LOCK:
        linker, name = using.linkers.next()
        try:
            return Library(linker, name, builder.export_symbol(MARK).link(linker, name), needs)
        except RuntimeError as error:
            missing = _missing(object_code, str(error), imports)
            raise NativeError(f"LLVM cannot link this code: {error}{missing}") from None


def _missing(object_code: bytes, error: str, imports: Mapping[str, int]) -> str:
    """Names in object code that it does not define, by what the linker says, nor gets."""
    if "symbols" not in error:
        return ""
    known = {*imports, *re.findall(r"[\w.$#]+", error)}
    names = re.findall(rb"(?<=\0)[A-Za-z_][\w.$#]*(?=\0)", object_code)
    lacking = sorted({name.decode() for name in names} - known)
    return f"; it may lack {', '.join(lacking)}" if lacking else ""


class _Linkers:
    """Hands out linkers: each links some libraries, and lives as long as any of them."""

    def __init__(self, binding: ModuleType, machine: Callable[[], Any]) -> None:
        self._binding = binding
        self._machine = machine
        self._linker: Any = None
        self._linked = 0

    def next(self) -> tuple[Any, str]:
        """A linker, and a name that no library of it has."""
        if self._linker is None or self._linked == LINKED_TOGETHER:
            self._linked = 0
            self._linker = self._binding.create_lljit_compiler(
                self._machine(), use_jit_link=True, suppress_errors=True
            )
        self._linked += 1
        return self._linker, f"library{self._linked}"
