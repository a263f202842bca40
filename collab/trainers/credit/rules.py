"""The shipped credit algorithms by name, except `shaped`, which wraps one of them."""

from __future__ import annotations

from typing import Any

from collab.trainers.credit.at_grpo import at_grpo
from collab.trainers.credit.counterfactual.algorithms import Coma, Cross, Removal, Shapley
from collab.trainers.credit.critics import IAC, MAAC
from collab.trainers.credit.madpo import MADPO
from collab.trainers.credit.magrpo import magrpo, mareinforce, maremax, marloo
from collab.trainers.credit.marlhf import MARLHF
from collab.trainers.credit.rae import Rae
from collab.trainers.credit.sft import Sft
from collab.trainers.credit.vdn import VDN

RULES: dict[str, Any] = {
    "magrpo": magrpo,
    "marloo": marloo,
    "maremax": maremax,
    "mareinforce": mareinforce,
    "cross": Cross,
    "coma": Coma,
    "shapley": Shapley,
    "removal": Removal,
    "iac": IAC,
    "maac": MAAC,
    "madpo": MADPO,
    "marlhf": MARLHF,
    "vdn": VDN,
    "rae": Rae,
    "sft": Sft,
    "at-grpo": at_grpo,
}
