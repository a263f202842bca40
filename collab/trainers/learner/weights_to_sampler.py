"""How weights reach the sampler.

A model that is trained in this process samples too: it has one set of parameters, and nothing
has to be done. An engine beside the trainer, such as vLLM, holds weights of its own: it is given
the adapters, and gives memory back while the trainer learns.
"""

from __future__ import annotations

import torch

from collab.models import RolloutEngine
from collab.models.base import ReportsLoad, SamplerReport
from collab.trainers.learner.policy import Policies, Policy


async def publish(policies: Policies) -> bool:
    """Let samplers beside the trainer act by the parameters as they are now, if they do not.

    Returns whether there was anything to do.
    """
    samplers = samplers_of(policies) if policies.moved else {}
    if samplers and torch.cuda.is_available():
        torch.cuda.empty_cache()  # they may need what learning has left unused
    for sampler, sampled in samplers.items():
        written = {policy.name: policy.save for policy in sampled}
        await sampler.publish(written, policies.version)
    policies.moved = False
    return bool(samplers)


async def sleep(policies: Policies) -> None:
    """Let samplers beside the trainer give memory back until `publish`."""
    for sampler in samplers_of(policies):
        await sampler.sleep()


async def report(policies: Policies) -> SamplerReport:
    """How samplers beside the trainer were loaded since the last report."""
    metrics: dict[str, float] = {}
    warnings: list[str] = []
    for number, sampler in enumerate(samplers_of(policies)):
        if isinstance(sampler, ReportsLoad):
            found = await sampler.report()
            which = f"{number + 1}/" if number else ""
            metrics |= {f"{which}{key}": value for key, value in found.metrics.items()}
            warnings += found.warnings
    return SamplerReport(metrics=metrics, warnings=tuple(warnings))


def samplers_of(policies: Policies) -> dict[RolloutEngine, tuple[Policy, ...]]:
    """Engines beside the trainer, and the policies that they sample from."""
    models = policies.models
    engines = {m for a in policies.agents if isinstance(m := models[a], RolloutEngine)}
    return {
        engine: tuple(p for p in policies if any(models[a] is engine for a in p.agents))
        for engine in engines
    }
