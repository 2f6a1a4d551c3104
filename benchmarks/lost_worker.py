"""Rows whose first worker kills itself: what is counted all the same has to be the same.

A module of its own, so that workers can import it.
"""

import os
import signal
from collections.abc import Iterable

from dp_pipeline.raw.counters.batch import Answer, BatchQuery
from dp_pipeline.raw.counters.stream import StoredRows


class DiesOnce(StoredRows):
    """Its worker kills itself when it is first asked."""

    def answer_batches(self, query: BatchQuery, indices: Iterable[int]) -> Answer | None:
        """The answer, of every worker but the first."""
        mark = self.pairs[0][0].with_suffix(".died")
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().answer_batches(query, indices)
