import pytest

from dp_pipeline.reporting.figures import picture


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw with a quarter of the pixels, four times as fast, where sharpness is not the point."""
    monkeypatch.setattr(picture, "_RESOLUTIONS", picture._RESOLUTIONS[3:])
