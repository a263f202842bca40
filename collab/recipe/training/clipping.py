"""Which clips and corrections fit each other and the objective."""

from __future__ import annotations


def check_clip(objective: str, low: float | None, high: float | None) -> None:
    """Raise ValueError for a clip that `objective` has no use for, or one that it lacks."""
    if objective == "reinforce" and (low or high):
        raise ValueError(
            "objective 'reinforce' has no ratio to clip; set objective to ppo, gspo or cispo,"
            " or leave out clip_ratio and clip_ratio_high"
        )
    if objective in ("ppo", "gspo") and low is None:
        usual = "0.2" if objective == "ppo" else "0.0003"
        raise ValueError(f"objective '{objective}' needs clip_ratio, e.g. {usual}")
    if objective == "cispo" and (low is not None or high is None):
        raise ValueError(
            "objective 'cispo' bounds ratios from above only; set clip_ratio_high, e.g. 4.0,"
            " and leave out clip_ratio"
        )


def check_band(band: tuple[float, float] | None, cap: float | None) -> None:
    """Raise ValueError for an `importance_band` that makes no sense, or not beside the cap."""
    if band is None:
        return
    low, high = band
    if not 0 <= low < 1 < high:
        raise ValueError(
            f"importance_band [{low:g}, {high:g}] must hold the ratio 1, that of a sampler that"
            " agrees; e.g. [0.5, 5]"
        )
    if cap is not None:
        raise ValueError(
            "importance_cap and importance_band both multiply a token by its ratio; set one"
        )
