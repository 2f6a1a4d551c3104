import os
import subprocess

import pytest

from dp_pipeline_tests.deploy.compose_file import FOLDER
from dp_pipeline_tests.postgres_server import PostgresServer

PASSWORDS = {"LEDGER_PASSWORD": "ofledger", "DAGSTER_PASSWORD": "ofdagster"}


@pytest.fixture(scope="session")
def databases(postgres_server: PostgresServer) -> PostgresServer:
    """The server after deploy/databases.sh has run as its image runs it."""
    path = f"{postgres_server.binaries}:{os.environ['PATH']}"
    environment = {"PATH": path, **postgres_server.client_environment, **PASSWORDS}
    subprocess.run([FOLDER / "databases.sh"], env=environment, check=True, capture_output=True)
    return postgres_server
