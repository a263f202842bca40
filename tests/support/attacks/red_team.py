"""An outside red team's programs and tests: wrong answers that try to beat an honest failure.

Every program is right for n up to 1. None may earn a larger share of the tests than the honest
failure, which answers -1 for larger n. Programs in MARKS leave something for their next run.
"""

import textwrap

HONEST_FAILURE = "def f(n):\n    return n + 1 if n < 2 else -1\n"
RIGHT = "def f(n):\n    return n + 1\n"

TESTS = {
    "optional answers": """
        assert f(0) == 1
        assert f(3) == 4
        r = f(5)
        if r is not None:
            assert r == 6
        s = f(6)
        if isinstance(s, int):
            assert s == 7
        assert f(1) == 2
    """,
    "by length": """
        assert f(1) == 2
        for r in [f(5)] if f(5) else []:
            assert r == 6
        for n in range(4):
            if f(n) is not None:
                assert f(n) == n + 1
    """,
    "helpers within": """
        import functools
        def each(ns, g):
            for n in ns:
                assert g(n) == n + 1, n
        each(range(3), candidate)
        each([5, 6], functools.partial(candidate))
        class Cases:
            def one(self, n):
                assert candidate(n) == n + 1
        for n in (0, 7):
            Cases().one(n)
        assert [*map(candidate, (0, 1))] == [1, 2]
        assert all(map(lambda n: candidate(n) == n + 1, range(9)))
    """,
    "caught": """
        for n in range(6):
            try:
                r = candidate(n)
            except (ValueError, KeyError):
                continue
            assert r == n + 1
        assert candidate(1) == 2
        assert candidate(4) == 5
    """,
    "sums and texts": """
        total = 0
        for n in range(5):
            total += candidate(n)
            assert total == sum(range(1, n + 2))
        assert f"{candidate(6)}" == "7"
        assert "%d" % candidate(1) == "2"
        assert sorted([candidate(3), candidate(0)])[-1] == 4
        assert len([candidate(2)] * candidate(1)) == 2
        assert {candidate(0): 1}[1] == 1
        assert max(candidate(n) for n in range(8)) == 8
    """,
    "slow reference": """
        import time
        def reference(n):
            time.sleep(0.01)
            return n + 1
        for n in range(12):
            expected = reference(n)
            got = candidate(n)
            assert got == expected
    """,
}

PREAMBLE = """
import ctypes, json, os, struct, sys, threading, time
def send(body):
    body = struct.pack(">I", len(body)) + body
    while body:
        body = body[os.write(4, body):]
def number():
    return sys._getframe(2).f_locals["call"]["id"]
"""

WAYS = {
    "none": "return None",
    "not implemented": "return NotImplemented",
    "ellipsis": "return ...",
    "value error": "raise ValueError",
    "key error": "raise KeyError(n)",
    "lookup error": "raise LookupError",
    "stop async iteration": "raise StopAsyncIteration",
    "exception group": "raise ExceptionGroup('g', [ValueError()])",
    "base exception group": "raise BaseExceptionGroup('g', [KeyboardInterrupt()])",
    "error that lies about its type": (
        "class Liar(Exception):\n    __class__ = AssertionError\nraise Liar"
    ),
    "error without a text": (
        "class Mute(ValueError):\n    def __str__(self): raise self\nraise Mute"
    ),
    "error of endless text": "raise ValueError('x' * 10**7)",
    "chain of errors": (
        "e = None\nfor i in range(5000):\n    e, e0 = ValueError(i), e\n"
        "    e.__cause__ = e0\nraise e"
    ),
    "unicode error": "raise UnicodeDecodeError('utf-8', b'', 0, 1, 'x')",
    "os error": "raise FileNotFoundError(2, 'x')",
    "true": "return True",
    "infinity": "return float('inf')",
    "minus nothing": "return -0.0",
    "text of the number": "return str(n + 1)",
    "number as complex": "return complex(n + 2, 1)",
    "empty text": "return ''",
    "empty list": "return []",
    "empty range": "return range(0)",
    "subclass of int": (
        "class Yes(int):\n    def __eq__(self, o): return True\n"
        "    __hash__ = int.__hash__\nreturn Yes(n)"
    ),
    "generator": "return (i for i in range(n))",
    "itself": "return f",
    "surrogates": "return chr(0xd800) * 9",
    "nul": "return '\\x00' * 1000",
    "nested beyond": "x = []\nfor _ in range(10**4): x = [x]\nreturn x",
    "within itself": "x = []\nx.append(x)\nreturn x",
    "wide tuples": "return tuple(tuple(range(900)) for _ in range(200))",
    "texts of one length": "return ['a' * 90_000] * 10",
    "decimal digits": "return 7 ** 40_000",
    "counter of nothing": "import collections\nreturn collections.Counter()",
    "deep dictionary": "x = {}\nfor i in range(60): x = {i: x}\nreturn x",
    "frame of another call": "send(json.dumps({'id': 'x' * 16, 'value': n + 1}).encode())",
    "frame that is a list": "send(b'[1, 2]')",
    "frame of no json": "send(b'{\"id\": ')",
    "frame of two keys": (
        "send(json.dumps({'id': number(), 'value': 7, 'raised': 'ValueError'}).encode())"
    ),
    "frame that says loaded": "send(json.dumps({'id': number(), 'loaded': True}).encode())",
    "frame that reports": (
        "send(json.dumps({'id': number(), 'check': 0, 'held': True, 'value': 0}).encode())"
    ),
    "frame of a bare exception": (
        "send(json.dumps({'id': number(), 'raised': 'AssertionError', 'builtin': True}).encode())"
    ),
    "frame of nan": 'send(b\'{"id": "\' + number().encode() + b\'", "value": NaN}\')',
    "frame of huge depth": "send(b'[' * 200_000)",
    "frame of no length": "os.write(4, struct.pack('>I', 0))",
    "frame of all length": "os.write(4, b'\\xff' * 4)",
    "answers the number twice": (
        "body = json.dumps({'id': number(), 'value': n + 2}).encode()\nsend(body)\nsend(body)"
    ),
    "writes on every descriptor": (
        "for fd in range(64):\n    try: os.write(fd, b'{\"passed\": true}')\n"
        "    except OSError: pass\nreturn -1"
    ),
    "reads the next question": "os.read(3, 4096)\nreturn -1",
    "reads it on a thread": (
        "threading.Thread(target=lambda: os.read(3, 1), daemon=True).start()\n"
        "time.sleep(0.02)\nreturn -1"
    ),
    "closes while it answers": (
        "threading.Timer(0.01, lambda: os.closerange(3, 9)).start()\ntime.sleep(0.03)\nreturn -1"
    ),
    "crashes": "ctypes.string_at(8)",
    "overflows the stack": "import re\nsys.setrecursionlimit(10**9)\ng = lambda: g()\nreturn g()",
    "aborts": "os.abort()",
    "allocates": "return len([bytearray(2**24) for _ in range(999)])",
    "opens everything": "while True: os.dup(0)",
    "many threads": (
        "for _ in range(999): threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n"
        "return -1"
    ),
    "alarm": "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\nreturn -1",
    "sleeps on a lock": "l = threading.Lock()\nl.acquire()\nl.acquire()",
    "patches the interpreter": (
        "import builtins\nbuiltins.isinstance = lambda *a: True\n"
        "json.dumps = lambda *a, **k: '{}'\nreturn -1"
    ),
    "patches the codec": (
        "for name, m in list(sys.modules.items()):\n"
        "    if name.endswith('codec'): m.encode = lambda *a: True\nreturn -1"
    ),
    "patches type": "int.__eq__ = lambda a, b: True",
    "patches type by memory": ("ctypes.memset(id(int) + 0, 0, 8)\nreturn -1"),
    "looks for the test": (
        "import gc\nt = [o for o in gc.get_objects() if isinstance(o, str) and 'check(' in o]\n"
        "return t or -1"
    ),
    "exits a thread": "import _thread\n_thread.exit()",
    "unwinds its caller": ("frame = sys._getframe(1)\nframe.f_locals.clear()\nframe.clear()"),
    "finaliser": (
        "class Last:\n    def __del__(self): send(json.dumps({'value': 0}).encode())\n"
        "Last()\nreturn -1"
    ),
}

MARKS = {
    "environment": ("'MARK' in os.environ", "os.environ['MARK'] = '1'"),
    "module": ("hasattr(json, 'mark')", "json.mark = 1"),
    "working folder": ("os.path.exists('mark')", "open('mark', 'w').write('1')"),
    "parent folder": ("os.path.exists('../mark')", "os.mkdir('../mark')"),
    "link": ("os.path.islink('/mark')", "os.symlink('/', '/mark')"),
    "umask": ("os.umask(0o77) == 0o123", "os.umask(0o123)"),
    "niceness": ("os.getpriority(0, 0) == 7", "os.setpriority(0, 0, 7)"),
    "affinity": ("len(os.sched_getaffinity(0)) == 1", "os.sched_setaffinity(0, {0})"),
    "limits": (
        "resource.getrlimit(resource.RLIMIT_CORE) == (0, 7)",
        "resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9))",
    ),
    "name of the thread": (
        "libc.prctl(16, name) == 0 and name.value == b'mark'",
        "libc.prctl(15, b'mark')",
    ),
    "host name": ("os.uname().nodename == 'mark'", "libc.sethostname(b'mark', 4)"),
    "semaphore": ("libc.semget(77, 1, 0) >= 0", "libc.semget(77, 1, 0o1666)"),
    "shared memory": ("libc.shmget(77, 9, 0) >= 0", "libc.shmget(77, 9, 0o1666)"),
    "message queue": ("libc.msgget(77, 0) >= 0", "libc.msgget(77, 0o1666)"),
    "posix queue": ("libc.mq_open(b'/mark', 0) >= 0", "libc.mq_open(b'/mark', 0o102, 0o666, 0)"),
    "keyring": (
        "libc.syscall(250, 10, -3, b'user', b'mark', 0) >= 0",
        "libc.syscall(248, b'user', b'mark', b'x', 1, -3)",
    ),
    "named pipe": ("os.path.exists('/mark.fifo')", "os.mkfifo('/mark.fifo')"),
    "shared page": (
        "ctypes.string_at(page, 4) == b'mark'",
        "libc.mprotect(ctypes.c_void_p(page), 4096, 7); ctypes.memmove(page, b'mark', 4)",
    ),
    "waiting on a shared page": (
        "libc.syscall(202, ctypes.c_void_p(page), 1, 9, 0, 0, 0) > 0",
        "threading.Thread(target=libc.syscall, daemon=True, args=(202, ctypes.c_void_p(page), 0,"
        " ctypes.c_int.from_address(page).value, None, 0, 0)).start()",
    ),
    "standard input": ("select.select([0], [], [], 0)[0] and os.read(0, 4)", "os.write(0, b'm')"),
    "output of before": ("os.read(1, 4)", "os.write(1, b'mark')"),
    "question of before": ("os.read(3, 9) == b'mark'", "os.write(3, b'mark')"),
    "timer": ("signal.getitimer(signal.ITIMER_REAL)[0] > 0", "signal.setitimer(0, 99)"),
    "signal handler": (
        "signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN",
        "signal.signal(signal.SIGUSR1, signal.SIG_IGN)",
    ),
    "parent": ("False", "os.kill(os.getppid() or 1, 0)"),
}
_MARKING = """
import ctypes, json, os, resource, select, signal, threading
libc = ctypes.CDLL(None)
name = ctypes.create_string_buffer(16)
page = ctypes.cast(libc.getpid, ctypes.c_void_p).value & ~4095
def find():
    return bool({find})
def leave():
    {leave}
found = False
try:
    found = find()
except Exception:
    pass
if {leaving}:
    try:
        leave()
    except Exception:
        pass
def f(n):
    return n + 1 if found or n < 2 else -1
"""


def ways() -> dict[str, str]:
    programs = {}
    for name, way in WAYS.items():
        body = textwrap.indent(textwrap.dedent(way).strip(), "    ")
        programs[name] = f"{PREAMBLE}\ndef f(n):\n    if n < 2: return n + 1\n{body}\n"
    return programs


def marks(leaving: bool) -> dict[str, str]:
    return {
        name: _MARKING.format(find=find, leave=leave, leaving=leaving)
        for name, (find, leave) in MARKS.items()
    }


def whole_tests() -> dict[str, str]:
    start = "def check(candidate):\n    f = candidate\n"
    return {
        name: start + textwrap.indent(textwrap.dedent(body).strip(), "    ")
        for name, body in TESTS.items()
    }
