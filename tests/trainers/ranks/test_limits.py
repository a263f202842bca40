"""Timeouts of ranks name the setting that limits the wait."""

import pytest

from collab.trainers.ranks.group import RankLost, _losing


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("limit", "did not respond within 0 s (trainer.ranks.limit); "),
        ("play_limit", "did not respond within 0 s (trainer.ranks.play_limit); "),
        ("", "did not respond within 0 s; "),
    ],
)
def test_timeout_names_the_setting(setting: str, message: str) -> None:
    with pytest.raises(RankLost) as lost, _losing("rank 1", 0.0, setting):
        raise RuntimeError("gloo timed out")
    assert f"rank 1 {message}" in str(lost.value)
