from dp_pipeline_tests.postgres_server import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]
