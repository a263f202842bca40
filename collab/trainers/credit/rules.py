"""The algorithms of credit that ship, by name: those that need no other algorithm."""

from __future__ import annotations

from typing import Any

from collab.trainers.credit.counterfactual.algorithms import Coma, Cross, Removal, Shapley
from collab.trainers.credit.critics.actor_critic import IAC, MAAC
from collab.trainers.credit.factored.qmix import QMIX
from collab.trainers.credit.factored.vdn import VDN
from collab.trainers.credit.information.pmic import PMIC
from collab.trainers.credit.magrpo import at_grpo, magrpo, mareinforce, maremax, marloo
from collab.trainers.credit.preferences.madpo import MADPO
from collab.trainers.credit.preferences.marlhf import MARLHF
from collab.trainers.credit.rae import Rae
from collab.trainers.credit.sft import Sft

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
    "qmix": QMIX,
    "pmic": PMIC,
    "rae": Rae,
    "sft": Sft,
    "at-grpo": at_grpo,
}
