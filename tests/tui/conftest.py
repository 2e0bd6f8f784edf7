import pytest


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask and draw so often that no test waits to see a change."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    for module in ("top_screen", "screens"):
        monkeypatch.setattr(f"zerorag_p2p.tui.{module}.TOP_REDRAW_S", 0.02)
        monkeypatch.setattr(f"zerorag_p2p.tui.{module}.TOP_REFRESH_S", 0.05)
