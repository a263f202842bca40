from collections.abc import Iterator

import pytest

from collab.recipe.sandbox import SandboxSpec
from collab.sandbox import Sandbox


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox(SandboxSpec(seconds=2, workers=1))
    yield sandbox
    sandbox.close()
