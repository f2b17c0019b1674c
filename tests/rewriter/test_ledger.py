"""What functions owe, and when they are compiled nevertheless."""

from __future__ import annotations

import pytest

from jitpkg.rewriter.ledger import FLOOR, PROVEN, SHARE, SIGHT, Account, Ledger, Loan


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(clock: Clock) -> Ledger:
    return Ledger(clock, began=0.0)


def spent(account: Account, clock: Clock, seconds: float, *, first: bool = False) -> Loan:
    loan = account.loan(first=first)
    with loan.taken():
        clock.now += seconds
    return loan


def test_the_first_entry_is_made_whatever_is_owed(ledger: Ledger, clock: Clock) -> None:
    account = Account(ledger, asked=True)
    spent(account, clock, 100.0, first=True)
    assert account.refusal(first=True) is None
    assert account.refusal(first=False) is not None


def test_what_nobody_has_asked_for_is_bounded_from_the_first(ledger: Ledger, clock: Clock) -> None:
    account = Account(ledger, asked=False)
    assert account.refusal(first=True) is None
    spent(account, clock, 10.0, first=True)
    assert account.refusal(first=True) is not None
    assert Account(ledger, asked=False).refusal(first=True) is not None  # so are all others
    assert Account(ledger, asked=True).refusal(first=True) is None


def test_what_was_asked_for_once_is_no_debt_of_others(ledger: Ledger, clock: Clock) -> None:
    spent(Account(ledger, asked=True), clock, 100.0, first=True)
    assert Account(ledger, asked=False).refusal(first=True) is None


def test_a_share_of_the_time_may_be_owed(ledger: Ledger, clock: Clock) -> None:
    account = Account(ledger, asked=True)
    spent(account, clock, 5.0, first=True)
    refused = account.refusal(first=False)
    assert refused is not None
    assert refused.why == (
        "5.0 s of compiling it have not paid back yet, and 2.0 s may be owed: 1 s, 20% of the"
        " program's first 25 s, and 1% of what it has run since"
    )
    assert clock.now < refused.until <= clock.now + 1
    clock.now = (5.0 - FLOOR) / SHARE - 0.01
    assert account.refusal(first=False) is not None
    clock.now += 0.02
    assert account.refusal(first=False) is None


def test_later_hardly_more_may_be_owed(ledger: Ledger, clock: Clock) -> None:
    """Ten seconds in vain are the most that a program of a few minutes may lose."""
    account = Account(ledger, asked=True)
    lost = 0.0
    while clock.now < 300:
        clock.now += 0.1
        if account.refusal(first=False) is None:
            spent(account, clock, 1.0)
            lost += 1.0
    assert lost <= 10
    clock.now = 3600
    assert account.refusal(first=False) is None


def test_all_that_is_compiled_again_shares_one_bound(ledger: Ledger, clock: Clock) -> None:
    for _ in range(4):
        spent(Account(ledger, asked=True), clock, 0.9)
    refused = Account(ledger, asked=True).refusal(first=False)
    assert refused is not None
    assert refused.why.startswith("3.6 s of compiling functions")


def test_what_would_be_added_has_to_fit(ledger: Ledger, clock: Clock) -> None:
    """Of what nobody asked for; half of what may be owed is always enough."""
    clock.now = 10.0
    account, asked = Account(ledger, asked=False), Account(ledger, asked=True)
    spent(account, clock, 2.0)
    assert account.refusal(first=False, cost=1.0) is None
    refused = account.refusal(first=False, cost=3.0)
    assert refused is not None
    assert refused.why.startswith("2.0 s of compiling it have not paid back yet, and 3.4 s")
    assert refused.why.endswith("; one entry more would take about 3.0 s")
    assert asked.refusal(first=False, cost=3.0) is None
    clock.now = 15.0
    assert account.refusal(first=False, cost=100.0) is None


def test_what_is_defined_again_is_compiled_while_half_is_owed(ledger: Ledger, clock: Clock) -> None:
    clock.now = 20.0
    once = Account(ledger, asked=False)
    again = Account(ledger, asked=False, again=True)
    spent(Account(ledger, asked=True), clock, 2.6)
    assert again.refusal(first=True) is None
    spent(Account(ledger, asked=True), clock, 0.5)
    refused = again.refusal(first=True)
    assert refused is not None
    assert refused.why.startswith("3.1 s of compiling functions have not paid back yet, and 2.8 s")
    assert refused.why.endswith("; 50% of that, as it was defined again")
    assert once.refusal(first=True) is None


def test_what_fails_costs_as_well(ledger: Ledger, clock: Clock) -> None:
    account = Account(ledger, asked=True)

    def fails() -> None:
        with account.loan(first=False).taken():
            clock.now += 3.0
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert account.owed == ledger.owed == 3.0


def test_paying_back(ledger: Ledger, clock: Clock) -> None:
    account = Account(ledger, asked=False)
    loan = spent(account, clock, 4.0)
    loan.pay_until(0.5)
    assert account.owed == ledger.owed == 2.0
    loan.pay_until(0.25)
    assert account.owed == 2.0
    loan.expect(SIGHT)
    assert account.owed == ledger.owed == 2.0 * PROVEN
    loan.expect(SIGHT + 1)
    assert account.owed == ledger.owed == 2.0
    loan.expect(SIGHT)
    loan.pay_until(1.0)
    assert account.owed == ledger.owed == 0.0


def test_what_is_defined_again_owes_all_that_it_has_cost(ledger: Ledger, clock: Clock) -> None:
    """The calls that would pay it back are those of its next definition."""
    loan = spent(Account(ledger, asked=False, again=True), clock, 4.0, first=True)
    loan.expect(SIGHT)
    assert ledger.owed == 4.0
    loan.pay_until(0.5)
    assert ledger.owed == 2.0


def test_debtors_pay_before_anybody_is_refused(ledger: Ledger, clock: Clock) -> None:
    account = Account(ledger, asked=True)
    loan = spent(account, clock, 10.0, first=True)
    account.debtors.append(lambda: loan.pay_until(1.0))
    assert account.refusal(first=False) is None
