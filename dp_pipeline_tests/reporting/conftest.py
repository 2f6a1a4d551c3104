import pytest

from dp_pipeline.reporting.figures import picture


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures of a quarter of the pixels, where sharpness is not the point:
    the same figure is drawn, four times as fast.
    """
    monkeypatch.setattr(picture, "_RESOLUTIONS", picture._RESOLUTIONS[3:])
