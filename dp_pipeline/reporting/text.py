"""Text for people: numbers rounded to their noise, parameters, labels, tables and progress."""

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.parameters import Parameter, fact_values
from dp_pipeline.results.bundle import Bundle

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

NO_NUMBER = "n/a"


def number_text(value: float) -> str:
    """Return a number as text with three significant digits, and a power of ten if it is below 1e-4
    or from a million on; ``n/a`` if it is not finite.

    >>> number_text(12.345), number_text(1234.5), number_text(0.00001234)
    ('12.3', '1,230', '1.23×10⁻⁵')
    """
    if not math.isfinite(value):
        return NO_NUMBER
    power = _power(value)
    if power:
        return f"{_fixed(_divide_by_power(value, power), 2)}×10{str(power).translate(_SUPERSCRIPT)}"
    return _fixed(value, _decimals(value, 3))


def interval_texts(value: float, low: float, high: float) -> list[str]:
    """Return a number and the ends of its interval as texts: as ``number_text``, or with more
    digits where half of the interval would have fewer than two.

    >>> interval_texts(12345.0, 12285.0, 12405.0), interval_texts(2074.0, 1910.0, 2230.0)
    (['12,345', '12,285', '12,405'], ['2,070', '1,910', '2,230'])
    """
    numbers, reach = (value, low, high), (high - low) / 2
    if not math.isfinite(reach):
        return [number_text(number) for number in numbers]
    decimals = _decimals(reach, 2)
    return [
        _fixed(number, decimals)
        if number and decimals > _decimals(number, 3)
        else number_text(number)
        for number in numbers
    ]


def noisy_text(value: float, deviation: float) -> str:
    """Return the text ``value ± deviation``, rounded to the digits that noise leaves; ``n/a`` if
    one is not finite.

    >>> noisy_text(12.345, 0.4), noisy_text(0.3456, 0.2), noisy_text(2345678.0, 40000.0)
    ('12.3 ± 0.4', '0.3 ± 0.2', '(2.35 ± 0.04)×10⁶')
    """
    if not (math.isfinite(value) and math.isfinite(deviation)):
        return NO_NUMBER
    power = _power(max(abs(value), deviation))
    if power:
        scaled = _plain_noisy_text(
            _divide_by_power(value, power), _divide_by_power(deviation, power)
        )
        return f"({scaled})×10{str(power).translate(_SUPERSCRIPT)}"
    return _plain_noisy_text(value, deviation)


def _plain_noisy_text(value: float, deviation: float) -> str:
    if deviation == 0:
        return f"{number_text(value)} ± 0"
    # One digit of 0.14 would be off by a third: a leading 1 keeps a second digit.
    digits = 2 if f"{deviation:.1e}".startswith("1") else 1
    noise_decimals = _decimals(deviation, digits)
    decimals = min(_decimals(value, 3), noise_decimals) if value else noise_decimals
    return f"{_fixed(value, decimals)} ± {_fixed(deviation, noise_decimals)}"


def _power(value: float) -> int:
    """Return the exponent of ten to write after a number; 0 from 1e-4 to below a million."""
    size = abs(value)
    return 0 if size == 0 or 1e-4 <= size < 1e6 else _exponent(value, 3)


def _divide_by_power(value: float, power: int) -> float:
    """Return value / 10^power, also where 10^power is no float."""
    return float(Decimal(value).scaleb(-power))


def _exponent(value: float, digits: int) -> int:
    return int(f"{value:.{digits - 1}e}".partition("e")[2])


def _decimals(value: float, digits: int) -> int:
    """Return the decimal places that show ``digits`` significant digits; −1 rounds to tens."""
    return digits - 1 - _exponent(value, digits) if value else 0


def _fixed(value: float, decimals: int) -> str:
    rounded = round(value, decimals) + 0.0  # −0 becomes 0
    return f"{rounded:,.{max(0, decimals)}f}"


LONGEST = 12
"""Most characters of a cost that is written exactly."""

LONGEST_QUESTION = 60

_UNITS = re.compile(r", clip \d+ shift \d+$")
"""The end of a question that says in which units of the fixed-point grid a distance is counted."""


def question_words(question: str) -> str:
    """Return the text of a charge's question without units of the fixed-point grid, shortened to 60
    characters.

    >>> question_words("clipped squared distance to 3 released centres, clip 1352 shift 27")
    'clipped squared distance to 3 released centres'
    """
    words = _UNITS.sub("", question)
    return words if len(words) <= LONGEST_QUESTION else f"{words[: LONGEST_QUESTION - 1]}…"


def cost_text(cost: Fraction) -> str:
    """Return an ε or ρ as text, exact if that is short, else with three digits after ``≈``.

    >>> cost_text(Fraction(1, 3)), cost_text(Fraction(10**9 + 1, 3 * 10**9))
    ('1/3', '≈ 0.333')
    """
    text = epsilon_text(cost)
    return text if len(text) <= LONGEST else f"≈ {number_text(float(cost))}"


def times_text(epsilon: Fraction) -> str:
    """Return e^ε as text, rounded up to three digits: the most by which one protected unit can
    multiply the probability of a result.

    >>> times_text(Fraction(1, 10)), times_text(Fraction(1)), times_text(Fraction(5))
    ('1.11', '2.72', '149')
    """
    times = math.exp(epsilon)
    step = 10.0 ** (math.floor(math.log10(times)) - 2)
    return number_text(math.ceil(times / step) * step)


def count_text(count: int) -> str:
    """Return an integer as text: all digits below a million, three digits from there on.

    >>> count_text(2), count_text(65536), count_text(2**32)
    ('2', '65,536', '4.29×10⁹')
    """
    return f"{count:,}" if abs(count) < 10**6 else number_text(float(count))


def parameter_words(fact: str) -> str:
    """Return the parameters of a release as one line of text.

    fact   a JSON object, as facts of a release store it; any other text is returned unchanged

    >>> parameter_words('{"columns": [], "k": "8"}'), parameter_words("{}")
    ('columns: all; k: 8', 'none')
    """
    parameters = fact_values(fact)
    if parameters is None:
        return fact
    return "; ".join(f"{name}: {_words(value)}" for name, value in parameters.items()) or "none"


def _words(value: Parameter) -> str:
    if value is None:
        return "not set"
    if isinstance(value, list):
        return ", ".join(value) or "all"
    return value or "none"


def model_labels(bundles: Iterable[Bundle]) -> Mapping[str, str]:
    """Return model → its label in a picture: the model's name.

    Where clusterings differ in k or in columns, their labels have k too; where they differ in
    columns, also these.
    """
    all_bundles = list(bundles)
    kinds = {
        bundle.model: (len(next(iter(centres.values()))), tuple(centres))
        for bundle in all_bundles
        if (centres := bundle.tables.get("centres"))
    }
    labels = {bundle.model: bundle.model for bundle in all_bundles}
    if len(set(kinds.values())) < 2:
        return labels
    same_columns = len({columns for _, columns in kinds.values()}) == 1
    for model, (k, columns) in kinds.items():
        labels[model] = f"{model}, k={k}" + ("" if same_columns else f" of {' '.join(columns)}")
    return labels


_MARKS = re.compile(r"[\\`*\[\]<>|~&]|(?<![^\W_])_|_(?![^\W_])")
_BEGINNING = re.compile(r"^(\d*)([#=]|[-+.)](?=[\s-]|$))")
"""The beginning of a heading, of a list item or of a line under a heading."""


def escape_markdown(text: str) -> str:
    r"""Return text as one line in which all Markdown markup is escaped.

    >>> escape_markdown("mean_radius <b>*new*</b>\n# _x_"), escape_markdown("# 1. - x")
    ('mean_radius \\<b\\>\\*new\\*\\</b\\> # \\_x\\_', '\\# 1. - x')
    >>> escape_markdown("1. x"), escape_markdown("-4")
    ('1\\. x', '-4')
    """
    line = _MARKS.sub(lambda mark: "\\" + mark.group(), " ".join(text.split()))
    return _BEGINNING.sub(r"\1\\\2", line)


_WIDTH_OF_A_FILE = 132


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a title and a table of named columns on stdout, numbers to the right, as wide as the
    terminal; 132 characters wide without one."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        is_numeric = bool(rows) and all(_is_number(row[index]) for row in rows)
        justify: Literal["left", "right"] = "right" if is_numeric else "left"
        # A number that is cut in two lines is hard to read; words may be cut.
        table.add_column(column, justify=justify, overflow="fold", no_wrap=is_numeric)
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else _WIDTH_OF_A_FILE
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    console.print(title, table, sep="\n")


def table_text(head: str, columns: Sequence[str], rows: Sequence[Sequence[str]], end: str) -> str:
    """Return aligned lines of text with a table, column names first, between the lines ``head`` and
    ``end``."""
    table = [columns, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ("  ".join(map(str.ljust, line, widths)) for line in table)
    return "\n".join([head, *(f"  {line}".rstrip() for line in lines), end])


def _is_number(text: str) -> bool:
    value = text.partition(" ± ")[0].partition("×")[0]
    try:
        float(value.lstrip("(").replace(",", ""))
    except ValueError:
        return text in ("", "–", NO_NUMBER)
    return True


@contextmanager
def progress(total: int, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show the steps of a long command on stderr, as a bar on a terminal, else as lines; yield the
    function to call with the name of each step as it begins.

    total   number of steps
    quiet   whether nothing is shown
    """
    if quiet:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        yield lambda step: print(f"{step} …", file=sys.stderr, flush=True)  # noqa: T201
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        steps = [0]

        def on_step(name: str) -> None:
            bar.update(task, description=name, completed=steps[0])
            steps[0] += 1

        yield on_step
