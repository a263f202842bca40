"""Parts of a return that are added up, and heads that are fitted so that the sum is the return."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from collab.trainers.credit.critics.head import Head, descend
from collab.trainers.credit.factored.reading import Batch


def parts(heads: Mapping[str, Head], batch: Batch) -> Tensor:
    """q_i of each joint action, 0 where an agent did not act: [joint actions, agents]."""
    columns = []
    for agent, head in heads.items():
        column = torch.zeros(len(batch.places))
        rows = torch.tensor(batch.rows[agent], dtype=torch.long)
        columns.append(column.index_add(0, rows, head(batch.features[agent])))
    return torch.stack(columns, dim=1)


def fit_sum(heads: Mapping[str, Head], batch: Batch, steps: int) -> float:
    """Move the sums of parts towards the returns; returns the squared error before."""
    targets = torch.tensor(batch.targets)
    optimisers = [head.optimiser for head in heads.values()]
    return descend(
        optimisers, lambda: functional.mse_loss(parts(heads, batch).sum(1), targets), steps
    )
