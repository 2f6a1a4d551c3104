"""What `dp-pipeline doctor` looks at: what is stored, who may read it, what was left behind, and
what this version of the program would make of it. It reads declarations, the ledger, answers that
were released and names of files; never a row. But for sweeping, when that is asked, it writes
nothing.
"""
