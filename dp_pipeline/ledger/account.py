"""The account of a population: its unit, its purpose, its limits, and how these may be raised."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import get_args

from dp_pipeline.config.amounts import PURE, Currency, delta_text, epsilon_text
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.windows import Within
from dp_pipeline.ledger.entries import require_line

RELATIONS = ("add_remove", "replace_one")
PURPOSES = ("release", "benchmark")
WITHIN = get_args(Within)
CONVERTED = {"ceiling": "limit", "per_month": "month_limit", "each_window": "window_limit"}
"""Field of a declared ε → the field that holds it in what the account counts in."""

LIMITS = (*CONVERTED, *CONVERTED.values(), "delta_ceiling")
"""The facts that a raise writes anew."""

WINDOW_FACTS = ("unit", "windows", "within")
"""The facts that an account gets anew with its windows, beside its limits."""

_PERSON = re.compile(r"at most [0-9]+ rows of a person(?: in each [a-z]+)?, column (.+)")
_DECLARED_LIMITS = (*CONVERTED, "delta_ceiling")
_OPTIONS = dict(
    zip(_DECLARED_LIMITS, ("--total", "--per-month", "--each-window", "--delta"), strict=True)
)
_FOR_EVER = {
    "ceiling": "ceiling",
    "limit": "ceiling in ρ",
    "each_window": "each_window",
    "window_limit": "each_window in ρ",
    "delta_ceiling": "ceiling of δ",
}
"""The limits that are never lowered, with their names in messages."""
_NONE = "none"
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+|/0*[1-9][0-9]*|e-[0-9]{1,4})?")
"""An amount as ``epsilon_text`` and ``delta_text`` spell it."""


@dataclass(frozen=True)
class Account:
    """The declared privacy budget of one population: its unit, its purpose, its limits of ε and δ.

    population   declared id of the population; never a file name or a content hash
    unit      the protected unit in words: "one row", "at most 20 rows of a person, column user"
    relation  "add_remove" or "replace_one": what neighbouring data sets differ by
    purpose   "release" (private rows) or "benchmark" (public rows, exact numbers are shown)
    ceiling   the sum of all ε that may ever be charged; None for a benchmark without a limit
    delta     None: the account counts in pure ε. Else it counts in ρ of zero-concentrated DP,
              and ``ceiling`` is an ε at this δ
    limit     the ceiling in what the account counts in; converted when the account opens or is
              raised, and stored in that row: no later conversion may move it
    per_month   the sum of all ε that may be charged in one calendar month (UTC), or None: a rate
              under the ceiling
    month_limit   ``per_month`` in what the account counts in, stored like ``limit``
    delta_ceiling   the sum of all δ of the charges' own, apart from ``delta``: that of the
              discovery of levels; None: no charge has any. Of each window where ``within`` says so
    windows   how the population's rows are partitioned by time, in words: "every week, UTC"; empty
              where they are not. Each window is a block, and every charge names its blocks
    within    whom the account protects: "window", a person's rows of one window; "ever", all rows
    each_window   the sum of all ε that may be charged to one window, or None
    window_limit  ``each_window`` in what the account counts in, stored like ``limit``

    All releases together are (ceiling, ``total_delta``)-private. Within a window all releases are
    (each_window, ``total_delta``)-private for the rows of that window.

    *Proof.* Neighbouring data sets differ in one person's rows of one window. A release reads the
    rows of the windows that its charge names, and no other row decides anything of it: of two
    neighbours a release of other windows sees the same rows, and is drawn alike. The remaining
    charges name this window, and they compose as those of any account. ∎ Source: McSherry
    2009, theorem 4 (parallel composition); which release comes next may depend on all noisy
    answers so far, as in adaptive composition, because the proof goes answer by answer.

    A release may read several windows: its charge names them all and is a charge of each, and the
    sums over all windows count it once for each (``entries.charge_in_all_windows``). So ``ceiling``
    bounds what a person costs who has rows in every window, whatever ``within`` says. Of an account
    that has got its windows later, earlier releases count in every window (``times_in_windows``).

    Raises DeclarationError for any other value, and for a release without a ceiling.

    >>> Account("trips", "one row", "add_remove", "release", Fraction(10)).purpose
    'release'
    """

    population: str
    unit: str
    relation: str
    purpose: str
    ceiling: Fraction | None
    delta: Fraction | None = None
    limit: Fraction | None = field(default=None, compare=False)
    per_month: Fraction | None = None
    month_limit: Fraction | None = field(default=None, compare=False)
    delta_ceiling: Fraction | None = None
    windows: str = ""
    within: Within = "ever"
    each_window: Fraction | None = None
    window_limit: Fraction | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        require_line(self.population, of="population")
        require_line(self.unit, of=f"unit of population {self.population}")
        self._require_member(RELATIONS, "relation")
        self._require_member(PURPOSES, "purpose")
        of = f"population {self.population}"
        self._require_member(WITHIN, "within")
        if self.windows:
            require_line(self.windows, of=f"windows of {of}")
        elif self.within == "window" or self.each_window is not None:
            name = "`within: window`" if self.within == "window" else "each_window"
            raise DeclarationError(
                f"{of}: {name} needs `windows`, but the account has none: declare them, or leave "
                f"{name} out"
            )
        most = self.each_window if self.within == "window" else self.ceiling
        if most is None and self.purpose == "release":
            limit = "limit of each window" if self.within == "window" else "ceiling"
            raise DeclarationError(
                f"population {self.population}: sensitive rows need a {limit}, but the "
                "account has none: declare it under `ceiling`"
            )
        self._require_amounts()
        for name, limit in CONVERTED.items():
            amount = getattr(self, name)
            if getattr(self, limit) is None and amount is not None:
                object.__setattr__(self, limit, self.currency.amount_of(amount))

    @property
    def currency(self) -> Currency:
        return Currency(self.delta)

    @property
    def total_delta(self) -> Fraction:
        """The largest δ of all releases together: that of the conversion from ρ, if the account is
        in ρ, plus ``delta_ceiling``.

        *Proof.* A charge with a δ of its own is (ε, δ)-private, so δ-approximate ε²/2-zCDP. In pure
        ε, charges compose to (Σε, Σδ). In ρ they compose to Σδ-approximate Σρ-zCDP, which
        is (ε, Σδ + ``delta``)-private for the ε that Σρ means at ``delta``. ∎ Sources: Dwork,
        Rothblum, Vadhan 2010 (basic composition); Bun, Steinke 2016, section 8.
        """
        return (self.delta or Fraction(0)) + (self.delta_ceiling or Fraction(0))

    @property
    def delta_limit(self) -> Fraction | None:
        """The limit of the sum of the charges' δ, in total or in each window; 0 where only ε is
        limited, None where nothing is."""
        if self.ceiling is None and self.each_window is None and self.delta_ceiling is None:
            return None
        return self.delta_ceiling or Fraction(0)

    def _require_member(self, expected: tuple[str, ...], name: str) -> None:
        value = getattr(self, name)
        if value not in expected:
            raise DeclarationError(
                f"population {self.population}: the {name} must be {' or '.join(expected)}, not "
                f"{value!r}"
            )

    def _require_amounts(self) -> None:
        for name in CONVERTED:
            amount = getattr(self, name)
            if amount is not None and not _is_positive(amount):
                raise DeclarationError(
                    f"population {self.population}: the {name} must be a Fraction above 0, not "
                    f"{amount!r}"
                )
        delta = self.delta_ceiling
        if delta is not None and not (_is_positive(delta) and delta < 1):
            raise DeclarationError(
                f"population {self.population}: the ceiling of δ must be a Fraction between 0 "
                f"and 1, not {delta!r}"
            )
        for name in ("per_month", "each_window"):
            part = getattr(self, name)
            if self.ceiling is not None and part is not None and part > self.ceiling:
                raise DeclarationError(
                    f"population {self.population}: the {name} must be at most the ceiling "
                    f"{epsilon_text(self.ceiling)}, not {epsilon_text(part)}"
                )

    def facts(self) -> dict[str, str]:
        """Return the account as texts by name, for a ledger row, which has its population apart."""
        facts = {
            "unit": self.unit,
            "relation": self.relation,
            "purpose": self.purpose,
            "currency": self.currency.name,
            **({"windows": self.windows, "within": self.within} if self.windows else {}),
            **self.limits(),
        }
        return facts if self.delta is None else {**facts, "delta": delta_text(self.delta)}

    def limits(self) -> dict[str, str]:
        """Return the ceiling, and each other limit that is set, as texts by name, for a ledger row.

        Without a ceiling its text is "none". An account in ρ has its limits in ε and in ρ.
        """
        facts = {}
        for name, limit in CONVERTED.items():
            if name == "ceiling" or getattr(self, name) is not None:
                facts[name] = _text(getattr(self, name))
                if self.delta is not None:
                    facts[limit] = _text(getattr(self, limit))
        if self.delta_ceiling is not None:
            facts["delta_ceiling"] = delta_text(self.delta_ceiling)
        return facts

    @classmethod
    def from_facts(cls, population: str, facts: Mapping[str, str]) -> Account:
        """Return the account whose ``facts()`` are these texts; KeyError, ValueError or
        DeclarationError for texts of no account."""
        is_pure = facts["currency"] == PURE.name
        amounts = dict[str, Fraction | None]()
        for name, limit in CONVERTED.items():
            text = facts[name] if name == "ceiling" else facts.get(name, _NONE)
            amounts[name] = _amount(text)
            is_converted = not is_pure and (name == "ceiling" or text != _NONE)
            amounts[limit] = _amount(facts[limit]) if is_converted else None
        within = facts.get("within", "ever")
        if within not in WITHIN:
            raise ValueError(
                f"The fact `within` of an account must be window or ever, not {within!r:.40}"
            )
        return cls(
            population=population,
            unit=facts["unit"],
            relation=facts["relation"],
            purpose=facts["purpose"],
            delta=None if is_pure else _parse_number(facts["delta"]),
            delta_ceiling=_amount(facts.get("delta_ceiling", _NONE)),
            windows=facts.get("windows", ""),
            within="window" if within == "window" else "ever",
            **amounts,
        )

    def with_changed_limits(self, changed: Mapping[str, Fraction | None]) -> Account:
        """Return a copy with other limits, given by the names of their fields; None: no limit.

        A limit of a month may be lowered or removed, no other limit (``require_not_lowered``).
        Raises DeclarationError also where nothing changes.
        """
        if not changed.keys() <= {*_DECLARED_LIMITS}:
            raise TypeError(f"Limits are {', '.join(_DECLARED_LIMITS)}, not {', '.join(changed)}")
        amounts = {
            name: amount for name, amount in changed.items() if amount != getattr(self, name)
        }
        if not amounts:
            now = self.limits()
            names = [name for name in _DECLARED_LIMITS if name in now]
            raise DeclarationError(
                f"population {self.population}: the limits ({_listed(now, names)}) are those "
                "it has already: name a higher one, or another per_month"
            )
        # Converted once: no later conversion may move a limit that stays.
        anew = {CONVERTED[name]: None for name in amounts if name in CONVERTED}
        after = replace(self, **amounts, **anew)  # type: ignore[arg-type]
        self.require_not_lowered(after)
        return after

    def require_not_lowered(self, after: Account) -> None:
        """Raise DeclarationError unless the account ``after`` a change has every limit of this one
        that is for ever, at least as high.

        Only rows in windows may get a ceiling where there was none. An account that begins to
        protect a person's rows of one window may leave its ceiling out.
        """
        for name, words in _FOR_EVER.items():
            old, new = getattr(self, name), getattr(after, name)
            is_ceiling = name in ("ceiling", "limit")
            if is_ceiling and old is None and new is not None and not after.windows:
                # Sensitive rows without windows always have a ceiling.
                raise DeclarationError(
                    f"population {self.population}: the account has no ceiling to raise, as its "
                    "rows are public: they may be released without one"
                )
            is_left_out = is_ceiling and new is None and self.within != after.within
            if old is not None and not is_left_out and (new is None or new < old):
                text = delta_text if name == "delta_ceiling" else epsilon_text
                raise DeclarationError(
                    f"population {self.population}: the {words} must be at least {text(old)}, as "
                    f"before, not {_NONE if new is None else text(new)}"
                )

    def with_windows(self, declared: Account) -> Account:
        """Return a copy of this account, which has no windows, with the windows, unit and limits of
        ``declared``.

        The total may be left out only where the account protects a person's rows of one window.
        Raises DeclarationError for an account that has windows, or differs in more; for a unit that
        the earlier unit does not cover (``times_in_windows``); and for a lower ceiling, of ε or δ.
        """
        of = f"population {self.population}"
        if self.windows or not declared.windows:
            got = "the file declares none: declare `windows`"
            if self.windows:
                got = f"the account has {self.windows!r} already: leave them as they are"
            raise DeclarationError(
                f"{of}: windows are added once, from a file that declares them, but {got}"
            )
        fixed = ("population", "relation", "purpose", "delta")
        changed = [name for name in fixed if getattr(self, name) != getattr(declared, name)]
        if changed:
            raise DeclarationError(
                f"{of}: only windows may be new, but the {' and '.join(changed)} differs: the "
                f"account has {_listed(self.facts(), changed)}, so declare that and not "
                f"{_listed(declared.facts(), changed)}"
            )
        if self.relation != "add_remove":
            raise DeclarationError(
                f"{of}: windows need the relation add_remove, but the account has {self.relation}: "
                "declare no `windows`"
            )
        times_in_windows(self, declared.unit)
        # Converted once: no later conversion may move a limit that stays.
        same = {
            limit: getattr(self, limit)
            for name, limit in CONVERTED.items()
            if getattr(self, name) == getattr(declared, name)
        }
        after = replace(declared, **same)
        self.require_not_lowered(after)
        return after

    def count_earlier_in_window(
        self, opened: Account, spent: Fraction, *, delta: Fraction
    ) -> Fraction:
        """Return the ε or ρ that each window counts for what was spent before there were windows:
        ``spent`` times ``times_in_windows``.

        opened   the account before it has windows
        spent    ε or ρ that it has spent
        delta    what it has spent of the charges' own δ

        Raises DeclarationError where that is more than one window may cost, and for a δ where the
        amount counts several times: two steps would cost more than twice the δ.
        """
        times = times_in_windows(opened, self.unit)
        amount, of = spent * times, f"population {self.population}"
        if delta and times > 1:
            raise DeclarationError(
                f"{of}: windows cannot be added, as levels were discovered at a δ that does not "
                "cover a person's several rows of one window: declare no `windows`"
            )
        if self.window_limit is not None and amount > self.window_limit:
            least = epsilon_text(amount)
            of_them = f"{epsilon_text(spent)} spent before, counted {times} times"
            raise DeclarationError(
                f"{of}: each_window must be worth at least {self.currency.symbol}={least} "
                f"({of_them}), not {epsilon_text(self.window_limit)}: raise it"
            )
        return amount

    def require_within(self, opened: Account) -> None:
        """Raise DeclarationError unless this declared account agrees with the open one; its limits
        may be lower.

        The message has both values of every field that differs, or of every limit that is higher
        than the open account's.
        """
        if self.windows and not opened.windows:
            opened.with_windows(self)  # Where no windows can be added, this says why.
            raise DeclarationError(
                f"population {self.population}: the account was opened without windows, but the "
                f"file declares {self.windows!r}: `dp-pipeline budget add-windows DATASET "
                "--reason …` adds them once, and what was spent before then counts in every "
                "window"
            )
        fixed = ("unit", "relation", "purpose", "delta", "windows", "within")
        names = [name for name in fixed if getattr(self, name) != getattr(opened, name)]
        if names:
            raise DeclarationError(
                f"population {self.population}: the account was opened with "
                f"{_listed(opened.facts(), names)}, but the file declares "
                f"{_listed(self.facts(), names)}: declare what it was opened with"
            )
        higher = [name for name in _DECLARED_LIMITS if self._is_higher(opened, name)]
        if higher:
            options = " ".join(f"{_OPTIONS[name]} …" for name in higher)
            raise DeclarationError(
                f"population {self.population}: the account has "
                f"{_listed(opened.facts(), higher)}, but the file declares "
                f"{_listed(self.facts(), higher)}: declare no more, or `dp-pipeline budget raise "
                f"DATASET {options} --reason …`"
            )

    def difference_from(self, opened: Account) -> str:
        """Return a sentence with the limits of this declared account that differ from the open
        one's; "" if none differs."""
        names = [name for name in _DECLARED_LIMITS if getattr(self, name) != getattr(opened, name)]
        if not names:
            return ""
        return (
            f"population {self.population}: the file declares {_listed(self.facts(), names)}; the "
            f"account has {_listed(opened.facts(), names)}, and the account rules"
        )

    def _is_higher(self, opened: Account, name: str) -> bool:
        declared, limit = getattr(self, name), getattr(opened, name)
        if name == "delta_ceiling":
            # An account without one has no δ to give.
            return bool((declared or 0) > (limit or 0))
        return declared is not None and limit is not None and bool(declared > limit)


def times_in_windows(opened: Account, unit: str) -> int:
    """Return the factor by which each window counts what was spent before there were windows: 1
    where single rows are protected; for all rows of a person 2 in ε, and 4 in ρ.

    opened   the account before it has windows
    unit     what is protected from now on, in words

    *Proof.* Let D and D' differ in what one person has in one window, W. Where one row was and is
    protected, W is that row, and D and D' were neighbours before: once. Where all rows of a person
    were, D and D' are both neighbours of D without any row of hers: P(D gives S) ≤ e^ε P(without
    her) ≤ e^(2ε) P(D' gives S), so twice; in ρ of two steps it is 2²ρ. Once is too little: at most
    m of her rows count, drawn from all of them, and where W goes up to m others take its place, so
    2m counted rows differ under noise for m. Where one row was protected, nothing bounds how many
    of one person's rows earlier releases counted, whatever ``at_most`` is from now on: refused. ∎
    Sources: Dwork, Roth 2014, theorem 2.2; Bun, Steinke 2016, proposition 1.9 (group privacy).

    Raises DeclarationError unless both units are single rows, or both all rows of a person by the
    same column.
    """
    if opened.unit == unit == "one row":
        return 1
    persons = [_PERSON.fullmatch(words) for words in (opened.unit, unit)]
    columns = {person[1] if person else "" for person in persons}
    if len(columns) > 1 or "" in columns:
        raise DeclarationError(
            f"population {opened.population}: the windows must protect what was protected before, "
            f"{opened.unit}, but the file declares {unit}: correct `protection`"
        )
    return 2 if opened.delta is None else 4


def _is_positive(value: object) -> bool:
    return isinstance(value, Fraction) and value > 0


def _amount(text: str) -> Fraction | None:
    return None if text == _NONE else _parse_number(text)


def _parse_number(text: str) -> Fraction:
    # "1e999999999" would be computed for hours.
    if not isinstance(text, str) or _NUMBER.fullmatch(text) is None:
        raise ValueError(f"An amount of an account must be the text of a number, not {text!r:.40}")
    return Fraction(text)


def _text(amount: Fraction | None) -> str:
    return _NONE if amount is None else epsilon_text(amount)


def _listed(facts: Mapping[str, str], names: list[str]) -> str:
    return ", ".join(
        f"{'ceiling of δ' if name == 'delta_ceiling' else name} {facts.get(name, _NONE)!r}"
        for name in names
    )
