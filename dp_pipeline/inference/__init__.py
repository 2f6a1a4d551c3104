"""Post-processing of noisy answers: no rows and no noise of its own."""
