"""A class to write, in ClassEval's published format, and its solution."""

from typing import Any

SKELETON = '''\
from collections import Counter


class Shelf:
    """
    Boxes on a shelf, by what is in them.
    """

    def __init__(self, room):
        """
        :param room: int, how many boxes there may be
        """
        self.room = room
        self.boxes = {}

    def add(self, name, boxes):
        """
        Put boxes on the shelf. A ValueError says "full" where there is no room.
        :return: int, how many boxes of this name there are now
        """

    def total(self):
        """
        :return: int, how many boxes there are
        """

    def move(self, other, name):
        """
        Move all boxes of a name to another shelf.
        :return: int, how many
        """

    @staticmethod
    def sort(names):
        """
        Sort a list of names in place, the shortest first.
        :return: int, how many there are
        """
'''
ADD = """\
    def add(self, name, boxes):
        if self.total() + boxes > self.room:
            raise ValueError("full")
        self.boxes[name] = self.boxes.get(name, 0) + boxes
        return self.boxes[name]
"""
TOTAL = """\
    def total(self):
        return sum(self.boxes.values())
"""
MOVE = """\
    def move(self, other, name):
        moved = self.boxes.pop(name)
        other.add(name, moved)
        return moved
"""
SORT = """\
    @staticmethod
    def sort(names):
        names.sort(key=len)
        return len(names)
"""
HEAD = """\
class Shelf:
    def __init__(self, room):
        self.room = room
        self.boxes = {}

"""
SOLUTION = "\n".join([HEAD, ADD, TOTAL, MOVE, SORT])
TEST = """\
import unittest

class ShelfTestAdd(unittest.TestCase):
    def setUp(self):
        self.shelf = Shelf(9)

    def test_add(self):
        assert self.shelf.add("nuts", 2) == 2
        self.assertEqual(self.shelf.add("nuts", 3), 5)
        self.assertEqual(self.shelf.boxes, {"nuts": 5})

    def test_full(self):
        self.assertEqual(self.shelf.add("nuts", 9), 9)
        with self.assertRaises(ValueError) as context:
            self.shelf.add("bolts", 1)
        self.assertEqual(str(context.exception), "full")

    def test_full_in_any_way(self):
        self.assertTrue(self.shelf.add("nuts", 8) == 8)
        with self.assertRaises(Exception):
            self.shelf.add("bolts", 2)

class ShelfTestTotal(unittest.TestCase):
    def test_total(self):
        shelf = Shelf(room=20)
        shelf.boxes["nuts"] = 4
        shelf.boxes["bolts"] = 3
        self.assertEqual(shelf.total(), 7)
        self.assertIn("nuts", shelf.boxes)
        self.assertTrue(shelf.room > 19)

    def test_set(self):
        shelf = Shelf(20)
        shelf.boxes = {"nuts": 6}
        self.assertEqual(shelf.total(), 6)

class ShelfTestMove(unittest.TestCase):
    def test_move(self):
        one, other = Shelf(5), Shelf(5)
        one.add("nuts", 2)
        self.assertEqual(one.move(other=other, name="nuts"), 2)
        self.assertEqual((one.total(), other.total()), (0, 2))

class ShelfTestSort(unittest.TestCase):
    def test_sort(self):
        names = ["bolts", "nut", "pins"]
        self.assertEqual(Shelf.sort(names), 3)
        self.assertEqual(names, ["nut", "pins", "bolts"])

class ShelfTestHelper(unittest.TestCase):
    def test_none(self):
        self.fail("not among the test classes")
"""
N_TESTS = 7

SHELF: dict[str, Any] = {
    "task_id": "ClassEval_900",
    "class_name": "Shelf",
    "skeleton": SKELETON,
    "import_statement": ["from collections import Counter"],
    "solution_code": SOLUTION,
    "test": TEST,
    "test_classes": ["ShelfTestAdd", "ShelfTestTotal", "ShelfTestMove", "ShelfTestSort"],
    "class_description": "Boxes on a shelf.",
    "methods_info": [
        {"method_name": name, "method_description": f'def {name}(self):\n    """Do {name}."""'}
        for name in ("add", "total", "move", "sort")
    ],
}
