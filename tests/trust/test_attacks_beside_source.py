"""Attacks through files next to an approved file; each uses a different way."""

import importlib
import importlib.util
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path

import pytest
from support.scoring import reward_of
from support.trust import Attacker, recipe_with

import collab
from collab import plugins
from collab.errors import CollabError
from collab.recipe import load_recipe

RIGHT = "\n\ndef right(context):\n    return 1.0\n"
HERE = "import sys\nfrom pathlib import Path\nsys.path.insert(0, str(Path(__file__).parent))\n"


def bytecode_of_a_package(attacker: Attacker) -> None:
    attacker.write("rules.py", "import kit" + RIGHT)
    attacker.write("kit/__init__.py")
    attacker.agree()
    attacker.compiled("kit/__init__.py", "cache")


def package_without_source(attacker: Attacker) -> None:
    attacker.write("rules.py", HERE + "import kit" + RIGHT)
    attacker.agree()
    attacker.compiled("kit/__init__.pyc")


def sourceless_package_beats_the_module(attacker: Attacker) -> None:
    attacker.write("rules.py", "import helper" + RIGHT)
    attacker.write("helper.py")
    attacker.agree()
    attacker.compiled("helper/__init__.pyc")


def package_beats_the_module(attacker: Attacker) -> None:
    attacker.write("rules.py", HERE + "import helper" + RIGHT)
    attacker.write("helper.py")
    attacker.agree()
    attacker.write("helper/__init__.py", attacker.mark)


def namespace_package(attacker: Attacker) -> None:
    attacker.write("rules.py", HERE + "import space.deep.inner" + RIGHT)
    attacker.agree()
    attacker.write("space/deep/inner.py", attacker.mark)


def extension_of_every_tag(attacker: Attacker) -> None:
    attacker.write("rules.py", HERE + "import helper" + RIGHT)
    attacker.write("helper.py", "one = 1\n")
    attacker.agree()
    for suffix in (*EXTENSION_SUFFIXES, ".pyd", ".dylib"):
        attacker.write(f"helper{suffix}", "no library, so that an attempt is an ImportError")
    module = plugins.load_function("reward", f"{attacker.folder}/rules.py:right")
    assert vars(sys.modules[module.__module__])["helper"].one == 1


def path_file(attacker: Attacker) -> None:
    attacker.write("rules.py", HERE + "import helper" + RIGHT)
    attacker.write("helper.py")
    attacker.write("helper.pth", f"import os; exec({attacker.mark!r})\n")
    attacker.write("sitecustomize.py", attacker.mark)
    attacker.write("conftest.py", attacker.mark)
    attacker.write("__init__.py", attacker.mark)
    attacker.agree()


def archive_on_the_path(attacker: Attacker) -> None:
    attacker.write(
        "rules.py", HERE + "sys.path.insert(0, sys.path[0] + '/kit.zip')\nimport evil" + RIGHT
    )
    attacker.agree()
    with zipfile.ZipFile(attacker.folder / "kit.zip", "w") as archive:
        archive.writestr("evil.py", attacker.mark)


def link_in_a_package(attacker: Attacker) -> None:
    attacker.write("rules.py", "from kit.linked import evil" + RIGHT)
    attacker.write("kit/__init__.py")
    attacker.write("hidden/evil.py", attacker.mark)
    attacker.agree()
    (attacker.folder / "kit" / "linked").symlink_to(attacker.folder / "hidden")


def link_is_turned(attacker: Attacker) -> None:
    attacker.write("good.txt", "one = 1\n")
    attacker.write("evil.txt", attacker.mark)
    attacker.write("rules.py", "import helper" + RIGHT)
    (attacker.folder / "helper.py").symlink_to("good.txt")
    attacker.agree()
    (attacker.folder / "helper.py").unlink()
    (attacker.folder / "helper.py").symlink_to("evil.txt")


def folder_is_turned(attacker: Attacker) -> str:
    for name, text in (("good", RIGHT), ("evil", attacker.mark + RIGHT)):
        attacker.write(f"{name}/rules.py", text)
    now = attacker.folder / "now"
    now.symlink_to("good")
    attacker.write("recipe.yaml", recipe_with(use="now/rules.py:right"))
    task = load_recipe(str(attacker.folder), trust=True).task
    now.unlink()
    now.symlink_to("evil")
    return reward_of(task).parts["right"].use


def imported_before(attacker: Attacker) -> None:
    """Another module with the same name was already imported in this process."""
    attacker.write("rules.py", "import helper\n\n\ndef right(context):\n    return helper.go()\n")
    attacker.write("helper.py", "def go():\n    return 1.0\n")
    attacker.agree()
    evil = importlib.util.module_from_spec(ModuleSpec("helper", None))
    exec(
        "def go():\n" + "".join(f"    {line}\n" for line in attacker.mark.splitlines()), vars(evil)
    )
    sys.modules["helper"] = evil


def other_case(attacker: Attacker) -> None:
    attacker.write("rules.py", HERE + "import HELPER" + RIGHT)
    attacker.write("helper.py")
    attacker.agree()
    attacker.write("HELPER.py", attacker.mark)


def search_path_of_a_package(attacker: Attacker) -> None:
    attacker.write(
        "kit/__init__.py",
        "from pathlib import Path\n__path__.append(str(Path(__file__).parents[1] / 'hidden'))\n",
    )
    attacker.write("rules.py", "import kit.evil" + RIGHT)
    attacker.agree()
    attacker.write("hidden/evil.py", attacker.mark)


def search_path_of_the_file(attacker: Attacker) -> None:
    attacker.write(
        "rules.py",
        "from pathlib import Path\n__path__.append(str(Path(__file__).parent))\nfrom . import evil"
        + RIGHT,
    )
    attacker.agree()
    attacker.write("evil.py", attacker.mark)


def search_path_above_the_file(attacker: Attacker) -> str:
    """The recipe's folder is above the function's folder."""
    above = HERE.replace(".parent", ".parents[1]")
    attacker.write("sub/rules.py", above + "__import__('evil')" + RIGHT)
    attacker.agree("sub/rules.py:right")
    attacker.write("evil.py", attacker.mark)
    return "sub/rules.py:right"


def search_path_extended_by_pkgutil(attacker: Attacker) -> None:
    attacker.write(
        "kit/__init__.py",
        HERE
        + "import pkgutil\n__path__ = pkgutil.extend_path([str(Path(__file__).parent)], 'kit')\n",
    )
    attacker.write("rules.py", "from kit import evil" + RIGHT)
    attacker.agree()
    attacker.write("kit/evil.py", attacker.mark)


def relative_import_of_a_later_file(attacker: Attacker) -> None:
    attacker.write("kit/__init__.py")
    attacker.write("kit/first.py", "from . import evil\n")
    attacker.write("rules.py", "import kit.first" + RIGHT)
    attacker.agree()
    attacker.write("kit/evil.py", attacker.mark)


def relative_import_above(attacker: Attacker) -> None:
    attacker.write("kit/__init__.py")
    attacker.write("kit/first.py", "from .. import evil\n")
    attacker.write("rules.py", "import kit.first" + RIGHT)
    attacker.agree()
    attacker.write("evil.py", attacker.mark)


def import_module_of_a_sibling(attacker: Attacker) -> None:
    attacker.write("rules.py", HERE + "import importlib\nimportlib.import_module('evil')" + RIGHT)
    attacker.agree()
    attacker.write("evil.py", attacker.mark)


def import_while_it_is_called(attacker: Attacker) -> None:
    attacker.write("rules.py", HERE + "\n\ndef right(context):\n    __import__('evil')\n")
    attacker.agree()
    attacker.write("evil.py", attacker.mark)


def module_changes_before_it_is_imported(attacker: Attacker) -> None:
    """The function imports a module long after its file was loaded."""
    attacker.write("rules.py", "def right(context):\n    import helper\n")
    helper = attacker.write("helper.py", "one = 1\n")
    attacker.agree()
    function = plugins.load_function("reward", f"{attacker.folder}/rules.py:right")
    helper.write_text(attacker.mark)
    attacker.compiled("helper.py", "cache")
    function(None)


def changed_while_it_is_read(attacker: Attacker) -> None:
    """Later reads of a file return different bytes."""
    rules = attacker.write("rules.py", RIGHT)
    attacker.agree()
    read_bytes, readings = Path.read_bytes, iter(range(99))

    def changing_read(path: Path) -> bytes:
        if path == rules:
            return (attacker.mark + RIGHT).encode() if next(readings) else read_bytes(path)
        return read_bytes(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_bytes", changing_read)
        attacker.run()


def module_with_a_helper(attacker: Attacker) -> str:
    sys.path.insert(0, str(attacker.folder))
    attacker.write("rules.py", "import helper" + RIGHT)
    attacker.write("helper.py")
    attacker.agree("rules:right")
    attacker.compiled("helper.py", "cache")
    return "rules:right"


def module_whose_helper_changes(attacker: Attacker) -> str:
    sys.path.insert(0, str(attacker.folder))
    attacker.write("rules.py", "import helper" + RIGHT)
    attacker.write("helper.py")
    attacker.agree("rules:right")
    attacker.write("helper.py", attacker.mark)
    return "rules:right"


def module_beside_a_module(attacker: Attacker) -> str:
    sys.path.insert(0, str(attacker.folder))
    attacker.write("kit/__init__.py")
    attacker.write("kit/rules.py", "import importlib\nimportlib.import_module('evil')" + RIGHT)
    attacker.agree("kit.rules:right")
    attacker.write("evil.py", attacker.mark)
    return "kit.rules:right"


def compiled_module_named(attacker: Attacker) -> str:
    sys.path.insert(0, str(attacker.folder))
    attacker.compiled("evil.pyc")
    with suppress(CollabError):
        attacker.agree("evil:right")
    return "evil:right"


def recipe_in_memory(attacker: Attacker) -> None:
    """An approved recipe is passed on as an object, and its file changes in between."""
    attacker.write("rules.py", RIGHT)
    attacker.write("recipe.yaml", recipe_with(use="rules.py:right"))
    recipe = load_recipe(str(attacker.folder), trust=True)
    attacker.write("rules.py", attacker.mark + RIGHT)
    with suppress(CollabError):
        collab.load(recipe).run(out="r")


def link_to_a_file_outside(attacker: Attacker, file: str, target: str) -> None:
    """Link `evil` to a new outside folder with a module, or to its file `target`."""
    attacker.write("rules.py", HERE + "__import__('evil')" + RIGHT)
    attacker.agree()
    hidden = attacker.folder.parent / "hidden"
    hidden.mkdir()
    (hidden / file).write_text(attacker.mark)
    (attacker.folder / (target or "evil")).symlink_to(hidden / target)


def link_out_of_the_folder(attacker: Attacker) -> None:
    link_to_a_file_outside(attacker, "evil.py", "evil.py")


def link_to_a_package_outside(attacker: Attacker) -> None:
    link_to_a_file_outside(attacker, "__init__.py", "")


def link_to_an_archive_outside(attacker: Attacker) -> None:
    attacker.write(
        "rules.py",
        HERE + "sys.path.insert(0, sys.path[0] + '/kit.zip')\n__import__('evil')" + RIGHT,
    )
    attacker.agree()
    with zipfile.ZipFile(attacker.folder.parent / "hidden.zip", "w") as archive:
        archive.writestr("evil.py", attacker.mark)
    (attacker.folder / "kit.zip").symlink_to(attacker.folder.parent / "hidden.zip")


def named_folder_below_the_current_one(attacker: Attacker) -> str:
    """A folder that the user names to run is foreign, even below the current one."""
    below = Attacker(Path.cwd() / "theirs", attacker.marker)
    below.write("words.jsonl", '{"word": "w0"}\n')
    below.write("rules.py", HERE + "__import__('evil')" + RIGHT)
    below.agree()
    below.write("evil.py", below.mark)
    return str(below.folder / "rules.py:right")


def module_waiting_in_the_runs_folder(attacker: Attacker) -> str:
    """`--out` is a folder with a module that the approved file would import."""
    attacker.write("rules.py", "try:\n    import helper\nexcept ImportError: ..." + RIGHT)
    attacker.agree()
    out = attacker.folder.parent / "out"
    (out / "functions").mkdir(parents=True)
    (out / "functions" / "helper.py").write_text(attacker.mark)
    with suppress(CollabError):
        collab.load(str(attacker.folder)).run(out=out)
        task = load_recipe(str(out)).task
        assert task
        assert task.reward
        return task.reward.parts["right"].use
    return "rules.py:right"


def import_of_a_long_name(attacker: Attacker) -> None:
    attacker.write("rules.py", f"try:\n    import {'a' * 300}\nexcept ImportError: ..." + RIGHT)
    attacker.agree()


BESIDE = [
    bytecode_of_a_package, package_without_source, sourceless_package_beats_the_module,
    package_beats_the_module, namespace_package, extension_of_every_tag, path_file,
    archive_on_the_path, link_in_a_package, link_is_turned, folder_is_turned, imported_before,
    other_case, search_path_of_a_package, search_path_of_the_file, search_path_above_the_file,
    search_path_extended_by_pkgutil,
    relative_import_of_a_later_file, relative_import_above, import_module_of_a_sibling,
    import_while_it_is_called, module_changes_before_it_is_imported, changed_while_it_is_read,
    module_with_a_helper, module_whose_helper_changes, module_beside_a_module,
    compiled_module_named, recipe_in_memory, link_out_of_the_folder, link_to_a_package_outside,
    link_to_an_archive_outside, named_folder_below_the_current_one,
    module_waiting_in_the_runs_folder, import_of_a_long_name,
]  # fmt: skip


@pytest.mark.parametrize("attack", BESIDE, ids=lambda attack: attack.__name__)
def test_files_next_to_the_approved_source_do_not_run(
    attacker: Attacker, attack: Callable[[Attacker], str | None]
) -> None:
    """An attack prepares a folder, gets it approved, and may name another function."""
    attacker.run(attack(attacker) or "rules.py:right")
    assert not attacker.marker.exists()
