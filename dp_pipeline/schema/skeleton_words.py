"""What a drafted data set file says to the person who finishes it."""

from __future__ import annotations

DRAFT = """\
#
# A draft of `dp-pipeline data init`: names and types of columns were read, and no row. Finish it
# without looking at one either: bounds and levels come from what everybody may know (units, forms,
# law), or they tell about the rows. Each TODO is a decision of yours, and nothing can be run before
# the last is made: `dp-pipeline data check` with this file names the next one.
"""

PROPOSED = """\
#
# A draft of `dp-pipeline data init --public`: levels and bounds were proposed by looking at all
# rows. That is good for rows that anyone may see, and for no others.
"""

LINEAGE = """\
# The population of persons: one privacy account, for ever. Every other file about the same persons
# has to name the same lineage.
"""

PERSON = """\
# All rows with one value of this column are one person, of which at most so many count, drawn by
# chance. Noise grows with that number.
"""

UNIT = """\
# What is protected. one_row: nobody has more than one row. rows_of_person: all rows with one value
# of a column are one person, of which at most so many count: noise grows with that number. Where
# persons have several rows, one_row protects none of them.
protection:
  unit: TODO                    # one_row, or rows_of_person with the two lines below
  # column: PERSON_ID
  # at_most: 20
"""

CEILING = """\
# The most ε that these persons may ever cost, over all models, partitions and snapshots together.
# `per_month: 1` beside it would be a limit of each month.
ceiling: {total: 4}
"""

ATTRIBUTES = """\
# What becomes of a row that is not as declared. clip: a number outside of its bounds becomes the
# nearer bound, so the row counts and the ends of the bounds look fuller than they are. drop: its
# row is left out, so the release is about fewer persons, and nothing says how many. In both, a text
# in place of a number drops the row; so does a text that is no level, unless `clip` stands here and
# the attribute has `other`. Below one attribute `on_invalid: clip | drop | other` is its own.
on_invalid: clip
# A column is a number or a category. Take the sign # from the lines that are to hold, put values in
# place of TODO, and delete the other lines; delete the columns that nobody needs: what is not
# declared is never read.
#   bounds: [0, 120]            a number: the lowest and the highest value that there can be
#   bins: 10                    in so many cells, for synthetic tables; without, for maps alone
#   edges: [18, 30, 65]         in place of bins: cuts between the bounds
#   integer: true               synthetic numbers are whole
#   levels: [red, blue, other]  a category: all texts that there can be; `0..15` for codes
#   other: other                the level that stands for any other text
#   nullable: true              missing values have a cell; `missing: ["?", NA]` says what they are
attributes:
"""

PARTITIONS = """\
# The ε that may be asked for. Each is a partition in Dagster.
partitions: [0.5, 1]
"""

MAP = """\
  # A map: k centres of the numbers; `columns: a b` chooses some of them.
"""

MAYBE_MAP = """\
  # Delete it where fewer than two attributes have bounds.
"""

TABLE = """\
  # A synthetic table of levels, bins and edges; `attributes: a b` chooses some of the attributes.
"""

MAYBE_TABLE = """\
  # Delete it, and its name in `publish`, where no attribute has any.
"""

PUBLISH = """\
# What the weekly schedule publishes, once somebody turns it on.
"""

AFTER_MODELS = """\
# Buys private numbers of quality with each release, on top of its ε. Delete it to buy none.
evaluation: {epsilon: 0.05}
# A number of rows to plan with, known to everybody; it need not be true. Never count for it.
# nominal_rows: 50000
# owners: [you@example.org, team:privacy]
"""

LABEL = """\
# label: NAME                   # an attribute with levels: the true classes of the rows
"""
