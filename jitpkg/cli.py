"""The command line, `jitpkg` or `python -m jitpkg`: `run script.py …` runs a program with its
functions compiled, `explain script.py::function …` tells what that made of one of them; `cache`
shows what is kept on disk, and `doctor` what is missing.

A program finds everything as if Python itself ran it: `sys.argv`, `sys.path`, `__main__`, exit
status, and tracebacks that begin in the program.
"""

from __future__ import annotations

import argparse
import atexit
import builtins
import io
import json
import os
import pkgutil
import runpy
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import TypeAlias

import jitpkg
from jitpkg import auto, cache, doctor, events
from jitpkg.errors import InvalidArgument
from jitpkg.messages import counted, size
from jitpkg.report import Report

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

_MAIN = "__main__"


_WITH_FILE = ("export", "import")
_OPTIONS = ("--include", "--exclude", "--backend", "--html")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; does not return where a program ends by an exception."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    own, program = _split(given) if given[:1] in (["run"], ["explain"]) else (given, [])
    options = _parser().parse_args(own)
    if options.command == "cache":
        if (options.file is None) is (options.action in _WITH_FILE):
            options.error(
                f"cache {options.action} takes {'a' if options.file is None else 'no'} file"
            )
        _cache(options.action, options.file, as_json=options.json)
        return
    if options.command == "doctor":
        sys.exit(0 if _doctor(as_json=options.json) else 1)
    if options.command == "completion":
        _print_completion(options.shell)
        return
    is_module = program[:1] == ["-m"]
    if is_module:
        del program[0]
    if not program:
        options.error("give a script, or -m and a module")
    function = ""
    if options.command == "explain":
        program[0], _, function = program[0].rpartition("::")
        if not program[0] or not function:
            options.error("give a script and a function, as in script.py::function")
    if options.html is not None and not options.html.parent.is_dir():
        options.error(f"--html: there is no folder {options.html.parent}")
    selection = auto.install(
        include=options.include, exclude=options.exclude, backend=options.backend
    )
    ending = auto.ending()
    ending.is_run = True
    if function:
        from jitpkg.explanation import Explained  # it loads torch

        ending.report = explained = Explained(function)
        events.STREAM.add(explained)
    elif options.report:
        ending.report = told = Report()
        events.STREAM.add(told)
        events.STREAM.counts = True
    if options.html is not None:
        title = f"{program[0]}::{function}" if function else " ".join(program)
        events.STREAM.add(_Page(options.html, title).recording)
    _Program(selection, program).run(is_module=is_module)


def _parser(files: list[argparse.Action] | None = None) -> argparse.ArgumentParser:
    """The parser of our own arguments; adds those that are files to a list.

    With such a list, a script is among them, which `_split` takes away otherwise.
    """
    parser = argparse.ArgumentParser(
        prog=_name(), description="A just-in-time compiler for PyTorch programs."
    )
    parser.add_argument("--version", action="version", version=f"jitpkg {jitpkg.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command", dest="command")
    found = [*_programs(commands, with_script=files is not None), *_caches(commands)]
    if files is not None:
        files.extend(found)
    examine = commands.add_parser(
        "doctor",
        help="say whether jitpkg works here, and what it lacks",
        description="Look at Python, PyTorch, LLVM, Triton, GPUs and the cache, and compile a small"
        " function. The exit status is 1 where no function is compiled, and else 0.",
    )
    examine.add_argument("--json", action="store_true", help="print it as JSON")
    complete = commands.add_parser(
        "completion",
        help="print what lets a shell complete these commands",
        description="Print a script that lets a shell complete the commands and options of jitpkg:"
        " eval \"$(jitpkg completion bash)\". It needs shtab: pip install 'jitpkg[completion]'.",
    )
    complete.add_argument("shell", choices=("bash", "zsh", "fish", "tcsh"))
    return parser


def _programs(commands: Commands, *, with_script: bool) -> Iterator[argparse.Action]:
    """The commands that run a program; yields the arguments that are files."""
    run = commands.add_parser(
        "run",
        help="run a program with its functions compiled",
        usage="%(prog)s [options] (script.py | -m module) [arguments of the program]",
        description="Run a script or a module as Python does, with its functions compiled.",
    )
    explain = commands.add_parser(
        "explain",
        help="run a program, and tell what was compiled of one of its functions",
        usage="%(prog)s [options] (script.py | -m module)::function [arguments of the program]",
        description="Run a script or a module with its functions compiled, and tell at the end what"
        " was made of one of them: graphs, breaks, guards, times.",
    )
    for command in (run, explain):
        command.add_argument(
            "--include", metavar="PATTERNS", help="only these modules; JITPKG_INCLUDE"
        )
        command.add_argument(
            "--exclude", metavar="PATTERNS", help="not these modules; JITPKG_EXCLUDE"
        )
        command.add_argument("--backend", metavar="NAME", help="of all functions")
        page = command.add_argument(
            "--html", metavar="FILE", type=Path, help="write a page about what was compiled"
        )
        yield page
        if with_script:
            yield command.add_argument("script")
        command.set_defaults(error=command.error)
    run.add_argument(
        "--report", action="store_true", help="say at the end what was compiled and gained"
    )


def _caches(commands: Commands) -> Iterator[argparse.Action]:
    """The command about what is kept on disk; yields the arguments that are files."""
    kept = commands.add_parser(
        "cache",
        help="show, remove, export or import the compiled kernels and graphs that are kept on disk",
        description="Show the compiled kernels and graphs that are kept on disk, remove them,"
        " write them into one file, or add those of such a file. What is imported is run: import"
        " only what you trust as you trust a program.",
    )
    kept.add_argument("action", nargs="?", choices=("info", "clear", *_WITH_FILE), default="info")
    yield kept.add_argument("file", nargs="?", type=Path, help="for export and import")
    kept.set_defaults(error=kept.error)
    kept.add_argument("--json", action="store_true", help="print it as JSON")


def _print_completion(shell: str) -> None:
    try:
        import shtab  # which few installations have
    except ImportError:
        sys.exit("Completion needs shtab: pip install 'jitpkg[completion]'")
    files: list[argparse.Action] = []
    parser = _parser(files)
    parser.prog = "jitpkg"
    for action in files:
        action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=shell))


def _name() -> str:
    """How the command was called."""
    called = Path(sys.argv[0]).name if sys.argv else ""
    return "jitpkg" if called == "jitpkg" else "python -m jitpkg"


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and the program's, which begin with a script or with -m."""
    at = 1
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "-m":
        at += 2 if arguments[at] in _OPTIONS else 1
    return arguments[:at], arguments[at:]


def _cache(action: str, file: Path | None, *, as_json: bool) -> None:
    if action == "info":
        _show(cache.info(), as_json=as_json)
        return
    try:
        if file is None:
            done, where, count = "removed", f"from {cache.info().directory}", cache.clear()
        elif action == "export":
            done, where, count = "exported", f"to {file}", cache.export_to(file)
        else:
            count = cache.import_from(file)
            done, where = "imported", f"into {cache.info().directory}"
    except (OSError, InvalidArgument) as error:
        sys.exit(f"{_REFUSED[action]}: {error}")
    print(json.dumps({done: count}) if as_json else f"{counted(count, 'file')} {done} {where}")


_REFUSED = {
    "clear": "The cache cannot be cleared",
    "export": "The cache cannot be exported",
    "import": "Nothing is imported",
}


def _show(found: cache.Info, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({name: _plain(getattr(found, name)) for name in cache.Info.__slots__}))
    else:
        print("\n".join(f"{name:9}  {text}" for name, text in _lines(found)))


def _doctor(*, as_json: bool) -> bool:
    """Whether functions are compiled here."""
    found = []
    for finding in doctor.examine():
        found.append(finding)
        if not as_json:
            print("\n".join(doctor.lines(finding)), flush=True)
    works, said = doctor.verdict(found)
    if as_json:
        print(json.dumps({"works": works, "findings": [asdict(finding) for finding in found]}))
    else:
        print(f"\n{said}")
    return works


def _plain(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat(timespec="seconds")
        case Path():
            return str(value)
        case _:
            return value


def _lines(found: cache.Info) -> Iterator[tuple[str, str]]:
    """What `info` shows, line by line."""
    yield "directory", str(found.directory)
    if found.trouble is not None:
        yield "not used", found.trouble
        return
    yield "files", str(found.files)
    yield "size", f"{size(found.bytes)} of at most {size(found.limit)}"
    if found.oldest is not None and found.newest is not None:
        last, first = (when.astimezone() for when in (found.newest, found.oldest))
        yield "last used", f"{last:%Y-%m-%d %H:%M}; the oldest {first:%Y-%m-%d %H:%M}"


class _Page:
    """Writes what was compiled, when the program has ended; a process that was forked does not."""

    def __init__(self, file: Path, title: str) -> None:
        from jitpkg.ranges import time_kernels  # which few runs need, as these
        from jitpkg.webreport import Recording, page

        self.recording = Recording()
        self.recording.times = time_kernels()
        self._page = page
        self._file = file.absolute()
        self._title = title
        self._process = os.getpid()
        atexit.register(self)

    def __call__(self) -> None:
        if os.getpid() != self._process:
            return
        try:
            self._file.write_text(self._page(self.recording, self._title), encoding="utf-8")
        except OSError as error:
            if sys.stderr is not None:
                sys.stderr.write(f"The page {self._file} cannot be written: {error}\n")


class _Program:
    """One program, in place of this one."""

    def __init__(self, selection: auto.Selection, arguments: list[str]) -> None:
        self.selection = selection
        self.name = arguments[0]
        self.arguments = arguments
        self.module = ModuleType(_MAIN)
        self.interrupted = False

    def run(self, *, is_module: bool) -> None:
        sys.argv[:] = self.arguments
        vars(self.module).update(__annotations__={}, __builtins__=builtins)
        sys.modules[_MAIN] = self.module
        atexit.register(self._end)  # first, so it runs last
        if is_module:
            sys.argv[0] = "-m"
            self._call(lambda: _run_module_as_main(self.name, True))
        elif pkgutil.get_importer(self.name) is not None:  # a folder, or a zip file
            sys.path[0 : not sys.flags.safe_path] = [self._path()]
            self._call(lambda: _run_module_as_main(_MAIN, False))
        else:
            if not sys.flags.safe_path:
                sys.path[0] = str(Path(self.name).resolve().parent)
            self._call(self._script)

    def _script(self) -> None:
        namespace = vars(self.module)
        namespace["__file__"] = file = self._path()
        code = _load(file)
        loader = (SourcelessFileLoader if file.endswith(".pyc") else SourceFileLoader)(_MAIN, file)
        hooks = auto.hooks_for(self.selection)
        if self.selection.selects(_MAIN, file):
            code = hooks.module(code)
            auto.tell(hooks)
        vars(loader)["hooks"] = hooks  # they live as long as the module
        self.module.__loader__ = loader
        namespace["__cached__"] = None
        exec(code, namespace)

    def _path(self) -> str:
        """The script's absolute path, which Python does not tidy up."""
        return self.name if Path(self.name).is_absolute() else f"{Path.cwd()}{os.sep}{self.name}"

    def _call(self, program: Callable[[], None]) -> None:
        """Run, and let an exception end the process as it does without us."""
        error = _raised_by(program)
        if error is not None:
            self.interrupted = isinstance(error, KeyboardInterrupt)
            _print(error)
            sys.exit(1)

    def _end(self) -> None:
        """A program that was interrupted dies of the signal, so that its parent sees it."""
        auto.ending()()
        if self.interrupted:
            sys.stdout.flush()
            sys.stderr.flush()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)


def _raised_by(program: Callable[[], object]) -> BaseException | None:
    """What a program raises, as if there were nothing of ours around it."""
    try:
        program()
    except SystemExit:
        raise
    except BaseException as error:
        error.__traceback__ = _own_part(error.__traceback__)
        return error
    return None


def _print(error: BaseException) -> None:
    """What Python does with an exception that nobody handles."""
    sys.last_type, sys.last_value = type(error), error
    sys.last_traceback = error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    second = _raised_by(lambda: sys.excepthook(type(error), error, error.__traceback__))
    if second is None:
        return
    print("Error in sys.excepthook:", file=sys.stderr)
    sys.__excepthook__(type(second), second, second.__traceback__)
    print("\nOriginal exception was:", file=sys.stderr)
    sys.__excepthook__(type(error), error, error.__traceback__)


_run_module_as_main: Callable[[str, bool], None] = vars(runpy)["_run_module_as_main"]
"""What `python -m` calls."""


def _load(file: str) -> CodeType:
    """A script's code, from its source or as it was compiled."""
    try:
        with io.open_code(file) as opened:
            compiled = pkgutil.read_code(opened)
            if isinstance(compiled, CodeType):
                return compiled
            opened.seek(0)
            source = opened.read()
    except OSError as error:
        print(
            f"{sys.orig_argv[0]}: can't open file {file!r}: [Errno {error.errno}] {error.strerror}",
            file=sys.stderr,
        )
        sys.exit(2)
    code: CodeType = compile(source, file, "exec", dont_inherit=True)
    return code


def _own_part(traceback: TracebackType | None) -> TracebackType | None:
    """The program's part of a traceback, without our own frames above it."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    return traceback
