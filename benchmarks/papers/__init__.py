"""The papers' figures, measured again on benchmark data; never on sensitive rows.

``python -m benchmarks.papers clustering|release|anonymity`` runs a study. One file a study measures
its cells: ``clustering``, ``tables``, ``anonymity``. ``study`` runs them, ``results`` summarises,
``claimed`` holds what the papers claim, ``claims`` judges it, ``shown`` says what a report shows,
``report`` writes it.
"""
