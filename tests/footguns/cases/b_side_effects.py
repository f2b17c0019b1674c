"""Side effects: what happens besides the value, and in which order."""

import collections
import contextlib
import io

from tests.footguns.support import floats, graph_break, outcome, plain


def B01_list_append_visible(C):
    out = []

    def f(x):
        y = x + 1
        out.append(y)
        y.mul_(2)
        return y

    r = C(f)(floats(1))
    return plain(r), plain(out), out[0] is r


def B02_attr_write_then_exception(C):
    class O:
        pass

    o = O()

    def f(x):
        o.a = x + 1
        raise ValueError("boom")

    r = outcome(C(f), floats(1))
    return r, plain(getattr(o, "a", None))


def B04_print_order(C):
    def f(x):
        print("a")
        y = x + 1
        print("b", float(y.sum()))
        y = y * 2
        print("c")
        return y

    b = io.StringIO()
    with contextlib.redirect_stdout(b):
        r = C(f)(floats(1))
    return plain(r), b.getvalue()


def B07_global_write_and_read_by_callee(C):
    def f(x):
        global G_CNT
        G_CNT = G_CNT + 1
        return x + rd()

    def rd():
        return G_CNT

    global G_CNT
    G_CNT = 0
    g = C(f)
    return plain(g(floats(0))), plain(g(floats(0))), G_CNT


def B08_setattr_with_property_setter(C):
    calls = []

    class P:
        @property
        def v(self):
            return self._v

        @v.setter
        def v(self, k):
            calls.append(k)
            self._v = k

    o = P()

    def f(x):
        o.v = 5
        return x + o.v

    return plain(C(f)(floats(0))), calls, o._v


def B10_iterator_consumed(C):
    it = iter([1, 2, 3, 4])
    f = C(lambda x, it: x + next(it))
    return plain(f(floats(0), it)), plain(f(floats(0), it)), list(it)


def B12_swap_attr_aliasing(C):
    class O:
        pass

    o = O()
    o.a = [1]
    o.b = [2]

    def f(x):
        o.a, o.b = o.b, o.a
        o.a.append(9)
        return x + len(o.a)

    return plain(C(f)(floats(0))), o.a, o.b


def B13_new_object_identity(C):
    class O:
        pass

    keep = []

    def f(x):
        o = O()
        o.t = x + 1
        o.me = o
        keep.append(o)
        keep.append(o)
        return x

    C(f)(floats(1))
    return keep[0] is keep[1], keep[0].me is keep[0], plain(keep[0].t)


def B14_returned_container_identity(C):
    l = [floats(1)]

    def f(l):
        l.append(l[0] + 1)
        return l, l

    a, b = C(f)(l)
    return a is b, a is l, plain(l)


def B15_deque_maxlen(C):
    d = collections.deque([1, 2], maxlen=2)

    def f(x):
        d.append(3)
        return x + d[0]

    return plain(C(f)(floats(0))), list(d)


def B16_defaultdict_missing(C):
    d = collections.defaultdict(list)

    def f(x):
        d["k"].append(1)
        return x + len(d["k"])

    g = C(f)
    return plain(g(floats(0))), plain(g(floats(0))), dict(d)


def B17_del_attr_and_item(C):
    class O:
        pass

    o = O()
    o.a = 1
    l = [1, 2, 3]

    def f(x):
        del o.a
        del l[0]
        return x + len(l) + hasattr(o, "a")

    return plain(C(f)(floats(0))), hasattr(o, "a"), l


def B18_list_sort_inplace_with_key(C):
    l = [3, 1, 2]

    def f(x):
        l.sort(key=lambda v: -v)
        return x + l[0]

    return plain(C(f)(floats(0))), l


def B22_mutation_seen_by_opaque_call(C):
    l = []

    def f(x):
        l.append(1)
        n = int(str(len(l)))
        y = x + n
        l.append(2)
        graph_break()
        return y + len(l)

    return plain(C(f)(floats(0))), l


def B23_exception_object_state(C):
    def f(x):
        try:
            raise ValueError("m", 3)
        except ValueError as e:
            return x + e.args[1]

    return plain(C(f)(floats(0)))
