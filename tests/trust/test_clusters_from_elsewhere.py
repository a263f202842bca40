"""A recipe from elsewhere does not send programs to a cluster unasked."""

from pathlib import Path

import pytest
from support.rooms.trust import recipe_with

from collab.errors import Untrusted
from collab.recipe import load_recipe


def test_a_cluster_that_programs_are_sent_to_is_asked_about(project: Path, evil: Path) -> None:
    settings = "sandbox: {executor: ray, address: 'evil.example:6379'}\n"
    (evil / "recipe.yaml").write_text(recipe_with() + settings)
    with pytest.raises(Untrusted, match=r"cluster at evil\.example:6379, which can run code"):
        load_recipe(str(evil))
    load_recipe(str(evil), settings=["sandbox.address=auto"])
    load_recipe(str(evil), settings=["sandbox.address=evil.example:6379"])
