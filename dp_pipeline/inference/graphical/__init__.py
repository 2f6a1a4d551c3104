"""Tables that noisy marginals agree on: junction trees, graphical models, views."""
