"""Tests of a class: the class that the test sees, and its objects in the worker."""
