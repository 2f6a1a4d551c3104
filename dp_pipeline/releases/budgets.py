"""The budgets of populations as text, for people and for programs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dp_pipeline.config.amounts import delta_text, epsilon_text
from dp_pipeline.ledger import Balance, Ledger


@dataclass(frozen=True)
class Budget:
    """The budget of one population, as it is shown to people.

    releases   number of charges, settled or not
    windows    time window → sum of its charges; empty where rows are not partitioned
    """

    population: str
    releases: int
    balance: Balance
    windows: Mapping[str, Fraction] = field(default_factory=dict)

    @property
    def window_summary(self) -> str:
        """A phrase with the number of charged time windows, their limit, and the window with the
        largest sum of charges; empty if no window was charged."""
        if not self.windows:
            return ""
        fullest, spent = max(self.windows.items(), key=lambda pair: pair[1])
        currency, ceiling = self.balance.currency, self.balance.window_ceiling
        limit = "without a limit of each"
        limit = limit if ceiling is None else f"of {currency.text(ceiling)} each"
        charged = f"{len(self.windows)} windows charged, {limit}"
        return f"{charged}; the fullest is {fullest} with {currency.text(spent)}"

    def texts(self) -> dict[str, str]:
        """Return every number and exact amount as text by name; for ρ also δ and the implied ε."""
        texts, currency = self._texts(epsilon_text), self.balance.currency
        if self.balance.delta_summary:
            ceiling = self.balance.delta_ceiling
            texts["own_delta_spent"] = str(self.balance.delta_spent)
            texts["own_delta_ceiling"] = "none" if ceiling is None else str(ceiling)
        if self.windows:
            limit = self.balance.window_ceiling
            texts["windows"] = str(len(self.windows))
            texts["fullest_window"] = epsilon_text(max(self.windows.values()))
            texts["each_window"] = "none" if limit is None else epsilon_text(limit)
        if currency.delta is None:
            return texts
        return {
            **texts,
            "currency": currency.name,
            "delta": delta_text(currency.delta),
            "spent_epsilon": epsilon_text(currency.epsilon_of(self.balance.spent)),
        }

    def cells(self) -> list[str]:
        """Return the texts of a row: the population, its numbers of all and of non-DP releases, and
        the amounts spent, left, allowed, allowed a month and left this month.

        An amount without a limit is ``none``.
        """
        return list(self._texts(self.balance.currency.text).values())

    def _texts(self, text: Callable[[Fraction], str]) -> dict[str, str]:
        balance = self.balance
        amounts = {
            "spent": balance.spent,
            "left": balance.remaining,
            "ceiling": balance.ceiling,
            "per_month": balance.per_month,
            "month_left": balance.month_remaining,
        }
        return {
            "population": self.population,
            "releases": str(self.releases),
            "not_dp": str(balance.not_dp),
            **{name: "none" if value is None else text(value) for name, value in amounts.items()},
        }


def budgets(ledger: Ledger, dataset: str | None) -> Sequence[Budget]:
    """Verify the ledger; return the budget of each population with an account.

    dataset   return only the budget of its population, or [] if that has no account; None: all
    """
    ledger.verify()
    population = None if dataset is None else population_of(dataset)
    return [
        Budget(name, ledger.count_releases(name), ledger.balance(name), ledger.blocks(name))
        for name in ledger.populations()
        if population in (None, name)
    ]


def population_of(dataset: str) -> str:
    """Return the population of a data set by its name; DeclarationError if it is not declared."""
    from dp_pipeline.config.catalogue import file_of
    from dp_pipeline.config.parser import load_spec

    return load_spec(file_of(dataset)).population
