"""The study of private tables: the papers' figures, measured again."""
