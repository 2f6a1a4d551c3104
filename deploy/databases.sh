#!/bin/sh
# Run once by the image, over an empty volume: two databases, neither owner reads the other's.
set -eu

database() {
  psql --username "${POSTGRES_USER:-postgres}" --dbname postgres \
    --set ON_ERROR_STOP=1 --set name="$1" --set password="$2" <<'SQL'
CREATE ROLE :"name" LOGIN PASSWORD :'password';
CREATE DATABASE :"name" OWNER :"name";
REVOKE CONNECT ON DATABASE :"name" FROM PUBLIC;
SQL
}

database ledger "$LEDGER_PASSWORD"
database dagster "$DAGSTER_PASSWORD"
