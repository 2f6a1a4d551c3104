import shutil

import pytest

from dp_pipeline.raw.stages import store_parts


@pytest.fixture(params=["dask", "spark"], scope="module")
def engine(request):
    """An engine of several processes, where it is installed."""
    require_engine(request.param)
    return str(request.param)


def require_engine(name: str) -> None:
    if name == "dask":
        pytest.importorskip("distributed", reason="no Dask here")
        return
    pytest.importorskip("pyspark", reason="no Spark here")
    if shutil.which("java") is None:
        pytest.skip("no Java here")


@pytest.fixture
def small_batches(monkeypatch):
    """Row groups of seven rows, where there would be one of a million."""
    monkeypatch.setitem(store_parts.__kwdefaults__, "rows", 7)
    yield
