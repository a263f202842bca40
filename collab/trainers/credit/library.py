"""The shipped credit algorithms by name."""

from __future__ import annotations

from collab.lazy import BuiltIn

BUILT_IN = BuiltIn(
    "collab.trainers.credit",
    {
        "magrpo": "magrpo:magrpo",
        "marloo": "magrpo:marloo",
        "maremax": "magrpo:maremax",
        "mareinforce": "magrpo:mareinforce",
        "cross": "counterfactual.algorithms:Cross",
        "coma": "counterfactual.algorithms:Coma",
        "shapley": "counterfactual.algorithms:Shapley",
        "removal": "counterfactual.algorithms:Removal",
        "iac": "critics:IAC",
        "maac": "critics:MAAC",
        "rae": "rae:Rae",
        "sft": "sft:Sft",
        "at-grpo": "magrpo:at_grpo",
    },
)
