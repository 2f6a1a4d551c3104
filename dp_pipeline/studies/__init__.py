"""Studies: what the papers claim, measured again on benchmark data; never on sensitive rows.

One file a study says what is compared, how one cell is measured, what the papers claim and what
the report shows: ``clustering``, ``tables``, ``k_anonymity``. All of them share the rest:
``study`` runs the cells, ``results`` summarises them, ``claims`` judges, ``report`` and
``charts`` show.
"""
