"""The study of k-anonymous tables: the paper's figures, measured again."""
