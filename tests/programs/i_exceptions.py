"""Exceptions raised and caught, cleanup, with blocks."""

import torch

from tests.programs.program import Programs, call, floats, leaf

program = Programs()


@program(call(floats(1, 2), 1), call(floats(1, 2), 0), every_break=True)
def raised_and_caught(x, n):
    try:
        if not n:
            raise ValueError("zero")
        y = x / n
    except ValueError:
        y = x - 1
    return y * 2


@program(call(floats(1, 2), 0), call(floats(1, 2), 1), every_break=True)
def python_error_caught(x, n):
    try:
        k = 10 / n
    except ZeroDivisionError as error:
        return x + 1, str(error), type(error)
    return x * k


@program(call(floats(1, 2), []), call(floats(1, 2), []), every_break=True)
def try_else_finally(x, log):
    try:
        y = x + 1
        log.append("body")
    except ValueError:
        log.append("never")
    else:
        log.append("else")
        y = y * 2
    finally:
        log.append("finally")
    return y


@program(call(floats(1, 2), []), graphs=None, every_break=True)
def finally_on_the_way_out(x, log):
    try:
        y = x + 1
        raise RuntimeError("out")
    finally:
        log.append(y)


def returns_in_try(x, log):
    try:
        return x + 1
    finally:
        log.append("cleanup")


@program(call(floats(1, 2), []))
def return_inside_try(x, log):
    y = returns_in_try(x, log)
    for i in range(3):
        try:
            if i == 1:
                continue
            y = y + i
        finally:
            log.append(i)
    return y


class Custom(Exception):
    def __init__(self, code, *args):
        super().__init__(f"code {code}", *args)
        self.code = code


@program(call(floats(1, 2), 3), call(floats(1, 2), 4), every_break=True)
def custom_exceptions(x, n):
    try:
        raise Custom(n)
    except (KeyError, Custom) as error:
        return x * error.code, error.args, str(error), isinstance(error, Exception)


@program(call(floats(1, 2), 3), graphs=None)
def custom_exception_goes_out(x, n):
    y = x + n
    raise Custom(n, y)


@program(
    call(floats(1, 2), [], torch.tensor([7])),
    call(floats(1, 2), [], torch.tensor([0])),
    ignore="traceback",  # it has one line more: that of the hook
)
def op_that_raises_after_changes(x, log, index):
    log.append(1)
    x.mul_(2)
    new = [x + 1]
    log.append(new)
    y = x[index]
    new.append(y)
    log.append("last")
    return y


@program(call(floats(1, 2)), graphs=None)
def exception_chains(x):
    y = x + 1
    try:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error
    except ValueError as error:
        return y, error.__cause__.args, error.__suppress_context__, error


@program(call(floats(1, 2)), graphs=None)
def exception_context(x):
    y = x + 1
    try:
        try:
            raise KeyError("first")
        except KeyError:
            {}["second"]
    except KeyError as error:
        return y * 2, error.args, type(error.__context__).__name__


def fails(x, n):
    if n > 2:
        raise IndexError(f"{n} is too deep")
    return fails(x + 1, n + 1)


@program(call(floats(1, 2)), every_break=True)
def exception_through_frames(x):
    try:
        return fails(x, 0)
    except LookupError as error:
        return x * 2, str(error)


@program(call(floats(1, 2)), graphs=None)
def reraised(x):
    log = []
    try:
        try:
            raise ValueError("v")
        except ValueError:
            log.append("inner")
            raise
    except ValueError as error:
        log.append(str(error))
    return x + len(log), log


@program(call(floats(1, 2), floats(1, 2, 3)), call(floats(1, 2), floats(3, 4)), graphs=None)
def op_that_raises_is_caught(x, y):
    try:
        z = x + y
    except RuntimeError as error:
        return x * 2, str(error)[:40]
    return z


@program(call(floats(1, 2), floats(1, 2, 3)), graphs=None)
def op_that_raises_goes_out(x, y):
    z = x * 2
    return z @ y


@program(call(floats(1, 2), 5), call(floats(1, 2), 1), graphs=None)
def index_that_raises(x, n):
    y = x.clone()
    y[0] = 5
    try:
        return y[n]
    except IndexError:
        return y


@program(
    call(floats(1, 2), torch.tensor([0, 5])), call(floats(1, 2), torch.tensor([0, 1])), graphs=None
)
def data_makes_an_op_raise(x, index):
    y = x + 1
    try:
        return y[index]
    except IndexError:
        return y * 2


class Manager:
    def __init__(self, log, suppresses=False):
        self.log = log
        self.suppresses = suppresses

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append(("exit", kind, str(value), traceback is None))
        return self.suppresses


@program(call(floats(1, 2), []), call(floats(1, 2), []), every_break=True)
def context_manager_class(x, log):
    with Manager(log) as manager:
        y = x + 1
        manager.log.append("inside")
    return y * 2, log


@program(call(floats(1, 2), [], True), call(floats(1, 2), [], False), graphs=None, every_break=True)
def context_manager_and_exception(x, log, suppresses):
    y = x
    with Manager(log, suppresses):
        y = x + 1
        raise ValueError("inside")
    return y * 3


@program(call(floats(1, 2), []), every_break=True)
def nested_handlers(x, log):
    for k in range(3):
        try:
            try:
                if k == 0:
                    raise KeyError(k)
                if k == 1:
                    raise ValueError(k)
                x = x + 1
            except KeyError:
                log.append("key")
                x = x * 2
        except ValueError:
            log.append("value")
            x = x * 3
    return x


@program(call(floats(1, 2)), graphs=None)
def exception_variable_is_unbound_after(x):
    error = None
    try:
        raise ValueError("v")
    except ValueError as error:
        y = x + 1
    try:
        return error
    except UnboundLocalError:
        return y


@program(call(floats(1, 2)), graphs=None)
def unbound_local(x):
    if x.dim() > 5:
        z = 1
    try:
        return x + z
    except UnboundLocalError as error:
        return x, str(error)


@program(call(floats(1, 2)), graphs=None)
def undefined_name(x):
    y = x + 1
    try:
        return y + undefined
    except NameError as error:
        return y, str(error), error.name


@program(call(floats(1, 2), "text"), call(floats(1, 2), None), graphs=None)
def type_errors(x, other):
    y = x + 1
    found = []
    for attempt in (
        lambda: y + other,
        lambda: len(5),
        lambda: 1 + "a",
        lambda: other[0],
        lambda: [] < 3,
    ):
        try:
            attempt()
        except TypeError as error:
            found.append(str(error))
    return y, found


@program(call(floats(1, 2), [1, 2, 3]), graphs=None)
def unpacking_errors(x, items):
    found = []
    for attempt in (2, 4):
        try:
            if attempt == 2:
                a, b = items
            else:
                a, b, c, d = items
        except ValueError as error:
            found.append(str(error))
    return x * len(found), found


@program(call(floats(1, 2)), graphs=None)
def exception_group(x):
    caught = []
    try:
        raise ExceptionGroup("several", [ValueError(1), KeyError(2)])
    except* ValueError as group:
        caught.append(len(group.exceptions))
    except* KeyError:
        caught.append("key")
    return x + 1, caught


@program(call(leaf(1, 2), []), call(leaf(1, 2), []))
def grad_mode_is_restored_after_exception(x, log):
    try:
        with torch.no_grad():
            y = x * 2
            log.append(torch.is_grad_enabled())
            raise ValueError
    except ValueError:
        log.append(torch.is_grad_enabled())
    return x * y


@program(call(floats(1, 2)))
def exceptions_as_values(x):
    errors = [ValueError("a", 1), KeyError("k"), Custom(3)]
    return x + len(errors), [e.args for e in errors], [str(e) for e in errors], errors[0]


@program(call(floats(1, 2), {}), call(floats(1, 2), {"k": 2}), every_break=True)
def asking_forgiveness(x, d):
    try:
        k = d["k"]
    except KeyError:
        k = d["k"] = 7
    try:
        n = d.missing
    except AttributeError:
        n = 1
    return x * k + n, d
