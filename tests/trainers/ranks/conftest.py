"""A process from which worlds of ranks are forked."""

from collections.abc import Iterator

import pytest
from support.worlds.warm_ranks import WarmRanks


@pytest.fixture(scope="session")
def warm_ranks() -> Iterator[WarmRanks]:
    with WarmRanks() as warm:
        yield warm
