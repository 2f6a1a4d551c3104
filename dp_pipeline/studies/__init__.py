"""Studies: what the papers claim, measured again on benchmark data; never on sensitive rows.

One folder a study (``clustering``, ``k_anonymity``, ``tables``); what they share lies beside:
benchmark data, the run of a study, the journal of finished cells, worker processes, means,
verdicts, pictures, sections of reports.
"""
