"""Named ranges of a profile: nothing happens in them where no profiler runs."""

from __future__ import annotations

import torch

from jitpkg.guards.state import no_profiler
from jitpkg.internals import modes
from jitpkg.tracer import reasons
from jitpkg.tracer.rows.table import CallTable
from jitpkg.tracer.values import FALSE, NONE, TRUE, Object, Value
from jitpkg.tracer.vm import VM

TABLE = CallTable()

_Range = torch.autograd.profiler.record_function


@TABLE.row(_Range.__enter__)
def enter_range(vm: VM, entered: Value, /) -> Value:
    """Nothing has to be ended, also where Python goes on inside of the range."""
    profiling = modes.PROFILING.found()
    if profiling is None or profiling():
        vm.stop(reasons.UNSUPPORTED, "a named range, while a profiler runs")
    if not isinstance(entered, Object) or entered.source is not None:
        vm.stop(reasons.UNSUPPORTED, "a named range that exists already")
    vm.stop_under_a_mode("a named range")
    vm.guard(no_profiler())
    vm.set_attribute(entered, _ENDS, FALSE)
    return entered


@TABLE.row(_Range.__exit__)
def leave_range(vm: VM, left: Value, /, *raised: Value) -> Value:
    vm.stop_under_a_mode("the end of a named range")
    if vm.truth(vm.attribute(left, _ENDS)):
        vm.stop(reasons.UNSUPPORTED, "the end of a named range that began while a profiler ran")
    vm.set_attribute(left, _ENDS, TRUE)
    return NONE


_ENDS = "run_callbacks_on_exit"
"""What a range does not, when it is left for real, if this is False."""
