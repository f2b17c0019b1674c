"""The set that keeps nothing alive."""

import threading

from jitpkg.living import Living


class Thing:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def test_members_are_told_apart_by_identity_and_die() -> None:
    a, b = Thing(), Thing()
    living: Living[Thing] = Living()
    living.update([a, b, a])
    assert len(list(living)) == 2
    assert a in living
    assert Thing() not in living
    living.discard(a)
    living.discard(Thing())
    assert [member is b for member in living] == [True]
    del b
    assert list(living) == []


def test_references_to_the_dead_are_dropped() -> None:
    living: Living[Thing] = Living()
    for _ in range(1000):
        living.add(Thing())
    assert len(living._references) < 20


def test_it_is_walked_while_others_add() -> None:
    living: Living[Thing] = Living()
    kept: list[Thing] = []
    errors: list[BaseException] = []

    def work(k: int) -> None:
        try:
            for _ in range(300):
                if k % 2:
                    kept.append(Thing())
                    living.add(kept[-1])
                else:
                    list(living)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(list(living)) == 1200
