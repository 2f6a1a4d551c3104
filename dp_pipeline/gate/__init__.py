"""The privacy boundary: questions, charges and noise."""
