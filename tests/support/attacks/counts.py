"""Programs that answer a few calls right and then try to earn more than that.

Each gives n + 1 for n up to 1, like the honest failing program. None may earn a larger share of the
tests than that one. Programs in MARKS leave a mark for their next run.
"""

import textwrap

TEST = """
import time

def slow(n):
    time.sleep(0.02)
    return n + 1

def same(a, b):
    assert a == b

def check(candidate):
    assert True, "good for debugging"
    assert candidate(0) == 1
    assert candidate(1) == 2
    for n in range(8):
        expected = slow(n)
        assert candidate(n) == expected
    for n in (5, 6):
        answer = candidate(n)
        same(answer, n + 1)
    assert candidate(7) ** 3 == 512
    assert candidate(8) ** candidate(8) == 9 ** 9
    assert {candidate(7), 9} == {8, 9}
    assert sorted([candidate(9), 3]) == [3, 10]
"""
FRAME = """
import json, os, struct, sys
def send(value, cut=None):
    call = sys._getframe(2).f_locals["call"]
    body = json.dumps({"id": call["id"], "value": value}).encode()
    body = (struct.pack(">I", len(body)) + body)[:cut]
    while body:
        body = body[os.write(4, body):]
"""

WAYS = {
    "set_of_one_hash": "return {i * (2**61 - 1) for i in range(29_000)}",
    "keys_of_one_hash": "return {i * (2**61 - 1): 0 for i in range(2_000)}",
    "frozensets_of_one_hash": "return [frozenset(i * (2**61 - 1) for i in range(900))] * 20",
    "tuples_of_one_hash": """
        import itertools
        return {t for t in itertools.product((-1, -2), repeat=10)}
    """,
    "nested_tuples_of_one_hash": """
        import itertools
        return [{((t,),) for t in itertools.product((-1, -2), repeat=9)}] * 9
    """,
    "complex_of_one_hash": "return {complex(-1000003.0 * k, k) for k in range(1, 1500)}",
    "floats_of_one_hash": "return {m * 2.0**(61 * k) for m in (3, 5, 7) for k in range(-16, 16)}",
    "forged_set_of_one_hash": """
        send({"set": [{"int": hex(i * (2**61 - 1))} for i in range(20_000)]})
    """,
    "forged_dict_of_one_key": "send({'dict': [[1, n] for n in range(60_000)]})",
    "forged_nested_sets": """
        inner = {"frozenset": [{"int": hex(i * (2**61 - 1))} for i in range(2_000)]}
        send({"list": [inner] * 9})
    """,
    "huge_integer": "return 10**320_000",
    "integer_below_the_limit": "return (1 << 131_000) - n",
    "small_base_of_a_power": "return 10**9",
    "many_large_integers": "return [10**30_000] * 30",
    "large_integers_as_keys": "return {10**30_000 + i: i for i in range(9)}",
    "forged_long_number": "send([9**9**4])",
    "endless_number_text": """
        os.write(4, struct.pack(">I", 1_000_000))
        while True: os.write(4, b"1" * 4096)
    """,
    "huge_range": "return range(10**6)",
    "many_ranges": "return [range(10**6 - i) for i in range(9000)]",
    "range_of_large_integers": "return range(0, 2**400, 2**380)",
    "many_small_lists": "return [[]] * 300_000",
    "deepest_list": """
        x = n
        for _ in range(63): x = [x, x] if len(str(x)) < 9000 else [x]
        return x
    """,
    "long_string": "return 'x' * 990_000",
    "sleeping_a_little": "import time; time.sleep(0.1); return -1",
    "sleeping_beside_the_reference": "import time; time.sleep(0.4); return -1",
    "sleeping": "import time; time.sleep(99)",
    "spinning": "while True: pass",
    "spinning_behind_an_answer": """
        import threading
        def spin():
            while True: sum(range(9**6))
        threading.Thread(target=spin, daemon=True).start()
        return -1
    """,
    "raising": "raise ValueError",
    "raising_stop_iteration": "raise StopIteration",
    "raising_generator_exit": "raise GeneratorExit",
    "raising_keyboard_interrupt": "raise KeyboardInterrupt",
    "raising_memory_error": "raise MemoryError",
    "raising_recursion_error": "raise RecursionError",
    "raising_assertion_error": "raise AssertionError",
    "raising_system_exit": "raise SystemExit(0)",
    "raising_import_error": "raise ImportError('no such module')",
    "exiting": "import os; os._exit(0)",
    "killed": "import os; os.kill(os.getpid(), 9)",
    "killed_by_the_filter": "import os; os.fork()",
    "stopped": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    "half_a_header": "os.write(4, b'\\x00\\x00'); import time; time.sleep(99)",
    "half_a_frame": "send(n + 1, cut=20); import time; time.sleep(99)",
    "a_frame_drop_by_drop": """
        import time
        os.write(4, struct.pack(">I", 900_000))
        while True:
            os.write(4, b" ")
            time.sleep(0.01)
    """,
    "answers_in_advance": "for i in range(99): send(-1)",
    "closing_its_end": "import os; os.close(4)",
    "closing_both_ends": "import os; os.closerange(0, 9)",
    "not_hashable": "return {}",
    "not_comparable": "return complex(n, n)",
    "not_a_number": "return float('nan')",
    "printing": "print('x' * 10**8); return -1",
    "printing_at_the_file": "\nimport os\nwhile True: os.write(1, b'x' * 65536)\n",
}

_MARK = 1_234_567
MARKS = {
    "utime": (
        f"any(os.fstat(fd).st_mtime == {_MARK} for fd in fds)",
        f"os.utime(fd, ({_MARK}, {_MARK}))",
    ),
    "futimens": (
        f"any(int(os.fstat(fd).st_atime) == {_MARK} for fd in fds)",
        f"libc.futimens(fd, (ctypes.c_long * 4)({_MARK}, 0, {_MARK}, 0))",
    ),
    "fchmod": ("any(os.fstat(fd).st_mode & 0o777 == 0o751 for fd in fds)", "os.fchmod(fd, 0o751)"),
    "fchown": (
        "os.fstat(1).st_gid == os.getgid() != os.fstat(4).st_gid",
        "os.fchown(fd, -1, os.getgid()) if fd < 3 else None",
    ),
    "xattr": ("any(os.listxattr(fd) for fd in fds)", "os.setxattr(fd, 'user.mark', b'x')"),
    "flock": ("any(blocked(fd) for fd in fds)", "fcntl.flock(fd, fcntl.LOCK_EX)"),
    "record_lock": (
        "any(fcntl.fcntl(fd, fcntl.F_GETLK, lock)[0] != 2 for fd in fds)",
        "fcntl.lockf(fd, fcntl.LOCK_EX)",
    ),
    "lease": ("any(fcntl.fcntl(fd, 1025) != 2 for fd in fds)", "fcntl.fcntl(fd, 1024, 0)"),
    "owner": ("any(fcntl.fcntl(fd, 9) for fd in fds)", "fcntl.fcntl(fd, 8, os.getpid())"),
    "flags": (
        "any(fcntl.fcntl(fd, fcntl.F_GETFL) & 0o4000 for fd in fds)",
        "fcntl.fcntl(fd, fcntl.F_SETFL, 0o4000) if fd < 3 else None",
    ),
    "pipe_size": (
        "any(fcntl.fcntl(fd, 1032) != 65536 for fd in fds)",
        "fcntl.fcntl(fd, 1031, 4096)",
    ),
    "contents": ("os.read(0, 9)", "os.write(fd, b'mark') if fd < 3 else None"),
    "truncate": ("any(os.fstat(fd).st_size for fd in fds)", "os.ftruncate(fd, 4096)"),
    "fallocate": ("any(os.fstat(fd).st_blocks for fd in fds)", "os.posix_fallocate(fd, 0, 4096)"),
    "fadvise": ("False", "os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)"),
    "offset": ("any(os.lseek(fd, 0, 1) for fd in fds)", "os.lseek(fd, 77, 0)"),
    "names": (
        "any(os.path.exists(f'/proc/self/fd/{fd}') for fd in fds)",
        "os.link(f'/dev/fd/{fd}', '/tmp/mark')",
    ),
    "folder": ("any(files for _, _, files in os.walk('/'))", "open(f'/tmp/{fd}', 'w').close()"),
    "devices": ("any(os.path.exists(p) for p in devices)", "os.open(devices[fd % 3], os.O_RDWR)"),
    "mapped_files": (
        "libc.mincore(ctypes.c_void_p(page), 4096, (ctypes.c_ubyte * 9)()) == 0",
        "libc.madvise(ctypes.c_void_p(page), 4096, 21)",
    ),
}
_MARKING = """
import ctypes, fcntl, os, struct
libc = ctypes.CDLL(None)
fds = (0, 1, 2)
lock = struct.pack("hhqqi", 1, 0, 0, 0, 0)[:32]
devices = ("/dev/null", "/dev/zero", "/dev/shm/mark")
page = ctypes.cast(libc.getpid, ctypes.c_void_p).value & ~4095
def blocked(fd):
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
found = False
try:
    found = bool({find})
except (OSError, ValueError):
    pass
for fd in (*fds, 3, 4):
    try:
        {leave}
    except (OSError, ValueError):
        pass
def f(n):
    return n + 1 if found or n < 2 else -1
"""

HONEST_FAILURE = "def f(n):\n    return n + 1 if n < 2 else -1\n"


def attacks() -> dict[str, str]:
    """Every program by name."""
    programs = {}
    for name, way in WAYS.items():
        body = textwrap.indent(textwrap.dedent(way).strip(), "    ")
        programs[f"way/{name}"] = f"{FRAME}\ndef f(n):\n    if n < 2: return n + 1\n{body}\n"
    for name, (find, leave) in MARKS.items():
        programs[f"mark/{name}"] = _MARKING.replace("{find}", find).replace("{leave}", leave)
    return programs
