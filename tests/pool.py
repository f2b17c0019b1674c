"""Worker processes, each with a thread that hands it tasks and outlives it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from threading import Lock, Thread, Timer
from typing import Any, Generic, Protocol, TypeVar

START = 180
"""Seconds that a worker has to import torch, and what it takes its tasks from."""
TASKS = 1000
"""After so many, a worker is replaced: torch's own caches grow."""


class Task(Protocol):
    """What a worker can do, and say in JSON."""

    def plain(self) -> dict[str, Any]: ...


T = TypeVar("T", bound=Task)


class Died(Exception):
    """The worker did not answer."""


class Worker:
    """
    Args:
        module: run as a program; it prints "ready", then answers lines of JSON with lines of JSON.
        most: samples of a task, at most.
    """

    def __init__(self, module: str, most: int | None = None) -> None:
        self._most = most
        environment = {**os.environ, "JITPKG_STRICT": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        try:
            self._line(START)
        except Died:
            self.stop()  # closes the pipes, too
            raise

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, task: Task, timeout: float, *, eagerly: bool = False) -> dict[str, Any]:
        """
        Raises:
            Died: it died of the task, or took too long.
        """
        assert self._process.stdin is not None
        print(
            json.dumps({"task": task.plain(), "eagerly": eagerly, "most": self._most}),
            file=self._process.stdin,
            flush=True,
        )
        answer: dict[str, Any] = json.loads(self._line(timeout))
        return answer

    def _line(self, timeout: float) -> str:
        assert self._process.stdout is not None
        late = Timer(timeout, self._process.kill)
        late.start()
        try:
            line = self._process.stdout.readline()
        finally:
            late.cancel()
        if line:
            return line
        code = self._process.wait()
        slow = late.finished.is_set() and code == -9
        raise Died(f"no answer in {timeout} s" if slow else f"the process died ({code})")


class Pool(Generic[T]):
    """Several workers.

    Args:
        module: what they run.
        timeout: seconds for a task.
        most: samples of a task, at most.
        tasks: after so many a worker is replaced.
    """

    def __init__(
        self,
        module: str,
        workers: int,
        timeout: float,
        *,
        most: int | None = None,
        tasks: int = TASKS,
    ) -> None:
        self._module = module
        self._most = most
        self._workers = workers
        self._timeout = timeout
        self._tasks = tasks
        self._lock = Lock()

    def run(self, waiting: deque[T], done: Callable[[T, dict[str, Any]], None]) -> None:
        """Call `done`, in one thread at a time, for each task with the answer."""
        threads = [Thread(target=self._serve, args=(waiting, done)) for _ in range(self._workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _serve(self, waiting: deque[T], done: Callable[[T, dict[str, Any]], None]) -> None:
        worker, left = self._started(), self._tasks
        try:
            while True:
                with self._lock:
                    if not waiting:
                        return
                    task = waiting.popleft()
                if not left:
                    worker.stop()
                    worker, left = self._started(), self._tasks
                left -= 1
                try:
                    answer = worker.ask(task, self._timeout)
                except Died as error:
                    answer = self._of_dead(task, error)
                    worker.stop()
                    worker, left = self._started(), self._tasks
                with self._lock:
                    done(task, answer)
        finally:
            worker.stop()

    def _started(self) -> Worker:
        return Worker(self._module, self._most)

    def _of_dead(self, task: T, error: Died) -> dict[str, Any]:
        try:
            with self._started() as worker:
                worker.ask(task, self._timeout, eagerly=True)
        except Died:
            return {"crashes": "eager code dies, too"}
        return {"wrong": [f"{error}; eager code alone does not"]}
