"""One release protocol: reserve, draw, store, settle; replay, evaluate, verify. No Dagster."""
