"""Studies: what the papers claim, measured again on benchmark data; never on sensitive rows.

One folder a study (``clustering``); what they share lies beside: benchmark data, the journal of
finished cells, worker processes, means, verdicts, pictures.
"""
