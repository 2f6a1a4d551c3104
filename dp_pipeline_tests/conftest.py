import os

from dp_pipeline_tests.postgres_server import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

# As many processes as cores run the tests, and small arrays take longer to share than to add up.
# Tests of what does not depend on threads set their number themselves.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
