"""PrivateRelease: what a card says about one release that was drawn with noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dp_pipeline.ledger import Balance
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.reporting.promise_words import PURPOSE, difference_words, unit_words
from dp_pipeline.reporting.sections import ANOTHER_EPSILON, NOT_DP, NOT_FOR_RELEASE
from dp_pipeline.schema.spec import DatasetSpec

_NOISE = {
    "opendp": "the samplers of the OpenDP library, fed by the operating system",
    "exact": "this package's exact samplers on whole numbers, fed by the operating system",
    "seeded": "a seeded generator: whoever knows the seed can take the noise off",
}


@dataclass(frozen=True)
class PrivateRelease:
    """One release with its declaration and its account.

    summary   one sentence about the model
    balance   of the population, for ever and now
    beside    releases of the same sensitive rows without any ε, a text each
    """

    spec: DatasetSpec
    bundle: Bundle
    summary: str
    balance: Balance
    beside: Sequence[str] = ()

    @property
    def heading(self) -> str:
        """The first line that anybody sees: whether the ε that was asked holds."""
        name = (
            f"{self.spec.name}/{self.bundle.facts['model']} at ε = {self.bundle.facts['epsilon']}"
        )
        return f"{self._standing}: {name}"

    @property
    def _standing(self) -> str:
        if not self.bundle.is_dp:
            return NOT_DP
        if self.bundle.caveat:
            return ANOTHER_EPSILON
        return "DIFFERENTIALLY PRIVATE" if self.bundle.fit_for_release else NOT_FOR_RELEASE

    @property
    def about(self) -> tuple[str, str]:
        """What was made of what, and whose rows these are."""
        # No exact number stands on a card, not even of public rows.
        rows = PURPOSE["release"] if self.spec.is_release else "Benchmark: the rows are public."
        model = self.bundle.facts["model"]
        return f"{self.spec.title}, by {model}: {self.summary}.", rows

    @property
    def protects(self) -> tuple[str, ...]:
        """Whom, compared with what, and how much; nobody where no finite ε holds."""
        if not self.bundle.is_dp:
            return (f"Nobody: {self.bundle.caveat}.",)
        said = (
            f"Unit: {unit_words(self.spec)}.",
            f"Compared with data where {difference_words(self.spec)}. Between the two, no possible "
            f"result is more than e^ε times as likely{self._slack}. This holds against any other "
            "knowledge and any computation.",
        )
        return said if self.bundle.fit_for_release else (self._nobody, *said)

    @property
    def _slack(self) -> str:
        """What a δ allows besides."""
        is_pure = self.spec.delta is None
        return "" if is_pure else ", or by more than δ more likely where a δ stands beside the ε"

    @property
    def _nobody(self) -> str:
        return "Nobody yet: what follows would hold for a draw from noise that is fit for release."

    @property
    def costs(self) -> tuple[str, ...]:
        """The ε of this release, and the sum of all that was ever drawn from its population."""
        evaluation = self.bundle.facts["evaluation"]
        bought = "" if evaluation == "none" else f", with ε = {evaluation} for its quality numbers"
        own = (
            f"This release: ε = {self.bundle.spent_text} exactly{bought}."
            if self.bundle.is_dp
            else "This release: no ε bounds what it tells."
        )
        return own, self._together, *self._without

    @property
    def _together(self) -> str:
        """Releases add up."""
        balance = self.balance
        spent = balance.currency.said(balance.spent)
        ceiling = (
            "no ceiling is declared"
            if balance.ceiling is None
            else f"the ceiling is {balance.currency.said(balance.ceiling)}"
        )
        return (
            f"Everything ever drawn from population {self.spec.lineage}, added up when this card "
            f"was written: {spent}; {ceiling}."
        )

    @property
    def _without(self) -> tuple[str, ...]:
        if self.beside:
            return (
                "Also released of the same rows without any ε, which no sum covers: "
                f"{'; '.join(self.beside)}.",
            )
        if self.balance.not_dp:
            return (f"Besides, {self.balance.not_dp} without any ε, which no sum covers.",)
        return ()

    @property
    def noise(self) -> str:
        """Where the noise came from, in words."""
        name = self.bundle.facts["noise"]
        kind = name.partition(":")[0]
        return f"Drawn from {name}: {_NOISE.get(kind, 'a source that is not known here')}."

    @property
    def fitness(self) -> str:
        """Whether it may leave, and why not."""
        bundle = self.bundle
        if bundle.fit_for_release and not bundle.caveat:
            return "Yes: nobody can draw its noise again, and the ε that was asked holds."
        if bundle.caveat:
            return f"No, never: {bundle.caveat}."
        return f"No: drawn from {bundle.facts['noise']} noise, it protects nobody."
