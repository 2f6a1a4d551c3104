"""The study of private clustering: the papers' figures, measured again."""
