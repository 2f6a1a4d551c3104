#!/bin/sh
# Run once by the image, over an empty volume: two databases, neither owner reads the other's.
set -eu

# A password's variable is named, not its text: what a command was called with, every process sees.
database() {
  psql --username "${POSTGRES_USER:-postgres}" --dbname postgres \
    --set ON_ERROR_STOP=1 --set name="$1" --set variable="$2" <<'SQL'
\getenv password :variable
CREATE ROLE :"name" LOGIN PASSWORD :'password';
CREATE DATABASE :"name" OWNER :"name";
REVOKE CONNECT ON DATABASE :"name" FROM PUBLIC;
SQL
}

database ledger LEDGER_PASSWORD
database dagster DAGSTER_PASSWORD
