"""Preloads the modules that programs and tests may import, because a jail has no files."""

from __future__ import annotations

import importlib
import multiprocessing

MODULES = """
abc argparse array ast asyncio atexit base64 binascii bisect builtins calendar cmath code codecs
collections collections.abc colorsys concurrent.futures concurrent.futures.process
concurrent.futures.thread configparser contextlib contextvars copy copyreg csv ctypes dataclasses
datetime decimal difflib dis doctest email.message enum errno fcntl filecmp fileinput fnmatch
fractions functools gc getopt getpass glob graphlib gzip hashlib heapq hmac html html.parser
importlib inspect io ipaddress itertools json json.tool keyword linecache locale logging marshal
math mmap multiprocessing multiprocessing.dummy multiprocessing.pool multiprocessing.popen_fork
multiprocessing.queues multiprocessing.resource_tracker multiprocessing.sharedctypes
multiprocessing.synchronize numbers operator os os.path pathlib pickle pickletools platform
posixpath pprint queue random re reprlib resource runpy sched secrets select selectors shlex shutil
signal site socket stat statistics string stringprep struct subprocess symtable sys sysconfig
tempfile textwrap threading time timeit token tokenize tomllib trace traceback tracemalloc types
typing unicodedata unittest unittest.mock urllib.parse uuid warnings weakref zipfile zlib zoneinfo
_strptime xml.etree.ElementTree encodings.ascii encodings.base64_codec encodings.charmap
encodings.cp1252 encodings.cp437 encodings.hex_codec encodings.idna encodings.latin_1
encodings.punycode encodings.raw_unicode_escape encodings.rot_13 encodings.unicode_escape
encodings.utf_16 encodings.utf_16_be encodings.utf_16_le encodings.utf_32 encodings.utf_7
encodings.utf_8 encodings.utf_8_sig
"""


def preload() -> None:
    """Import the modules that programs often use, so that forked processes have them."""
    for name in MODULES.split():
        module = importlib.import_module(name)
        for public_name in getattr(module, "__all__", ()):
            getattr(module, public_name, None)  # may import a submodule
    multiprocessing.set_start_method("fork")  # another one starts a process for each lock
