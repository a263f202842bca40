"""Programs that try to be scored without being right, or to do harm.

The task is `f(n) = n + 1`. Every program here computes something else, so none may pass. Most are a
function `attack` that the harness places in main, in aux, in a default argument, in a decorator
and at module level; some are whole programs.
"""

from __future__ import annotations

import textwrap

MARK = "judge_attack_mark"
"""In the name or text of everything that an attack tries to leave behind."""

PLACES = {
    "module": "{attack}\nattack()\ndef aux(n):\n    return n\ndef f(n):\n    return aux(n)\n",
    "main": "{attack}\ndef aux(n):\n    return n\ndef f(n):\n    attack()\n    return aux(n)\n",
    "aux": "{attack}\ndef aux(n):\n    attack()\n    return n\ndef f(n):\n    return aux(n)\n",
    "default": "{attack}\ndef aux(n):\n    return n\ndef f(n, x=attack()):\n    return aux(n)\n",
    "decorator": (
        "{attack}\ndef mark(g):\n    attack()\n    return g\n"
        "def aux(n):\n    return n\n@mark\ndef f(n):\n    return aux(n)\n"
    ),
}

EXITS = {
    "sys_exit": "import sys; sys.exit(0)",
    "exit_builtin": "raise SystemExit(0)",
    "os_exit": "import os; os._exit(0)",
    "abort": "import os; os.abort()",
    "kill_self": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "term_self": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "raise_signal": "import signal; signal.raise_signal(signal.SIGINT)",
    "atexit": "import atexit, os; atexit.register(os._exit, 0); raise SystemExit(0)",
    "exec": "import os; os.execv('/bin/true', ['true'])",
    "exec_python": "import os, sys; os.execv(sys.executable, ['python', '-c', 'pass'])",
    "thread_exit": """
        import os, threading
        t = threading.Thread(target=os._exit, args=(0,)); t.start(); t.join()
    """,
    "timer_exit": """
        import os, threading
        threading.Timer(0.01, os._exit, (0,)).start()
    """,
    "alarm_exit": """
        import os, signal, time
        signal.signal(signal.SIGALRM, lambda *a: os._exit(0))
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        time.sleep(0.1)
    """,
    "finaliser": """
        import os
        class Last:
            def __del__(self): os._exit(0)
        Last()
    """,
    "segfault": "import ctypes; ctypes.string_at(0)",
    "libc_exit": "import ctypes; ctypes.CDLL(None)._exit(0)",
    "generator_exit": "raise GeneratorExit",
    "keyboard_interrupt": "raise KeyboardInterrupt",
    "stack_overflow": """
        import sys
        sys.setrecursionlimit(10**9)
        def down(n): return [*map(down, [n])]
        down(0)
    """,
}

PATCHES = {
    "builtins": """
        import builtins
        builtins.all = builtins.any = lambda *a: True
        builtins.len = lambda *a: 2
        builtins.AssertionError = builtins.Exception = type('E', (BaseException,), {})
    """,
    "eq_of_int": """
        import ctypes
        try:
            int.__eq__ = lambda a, b: True
        except TypeError:
            pass
    """,
    "forbidden_fruit": """
        import ctypes, gc
        for d in gc.get_referents(int.__dict__):
            if isinstance(d, dict): d['__eq__'] = lambda a, b: True
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(int))
    """,
    "settrace": """
        import sys
        def trace(frame, event, arg):
            frame.f_trace_opcodes = True
            return trace
        sys.settrace(trace)
    """,
    "setprofile": "import sys; sys.setprofile(lambda *a: None)",
    "import_hook": """
        import sys
        class Hook:
            def find_spec(self, name, path=None, target=None):
                import os; os._exit(0)
        sys.meta_path.insert(0, Hook())
        import nothing_like_it
    """,
    "unittest": """
        import unittest
        unittest.TestCase.assertEqual = lambda *a: None
        unittest.main = lambda *a: None
    """,
    "sandbox_modules": """
        import sys
        for name, module in list(sys.modules.items()):
            if name.startswith(('supervisor', 'collab')):
                for key in list(vars(module)):
                    if callable(vars(module)[key]): setattr(module, key, lambda *a, **k: True)
    """,
    "small_ints": """
        import ctypes, sys
        where = id(2) + ctypes.sizeof(ctypes.c_void_p) * 3
        ctypes.c_uint32.from_address(where).value = 1
    """,
}

PEEKS = {
    "frames": """
        import sys
        frame, seen = sys._getframe(), []
        while frame:
            seen.append((frame.f_code.co_filename, dict(frame.f_locals), dict(frame.f_globals)))
            frame = frame.f_back
        text = str(seen)
        i = text.find('candidate(')
        if i >= 0: globals()['aux'] = lambda n: n + 1
    """,
    "gc": """
        import gc
        for o in gc.get_objects():
            if isinstance(o, dict) and 'assertions' in o: globals()['aux'] = lambda n: n + 1
            if callable(o) and getattr(o, '__name__', '') == 'check':
                globals()['aux'] = lambda n: n + 1
    """,
    "own_memory": """
        import ctypes, sys
        try:
            for line in open('/proc/self/maps'):
                globals()['aux'] = lambda n: n + 1
        except OSError:
            pass
    """,
    "parent_memory": """
        import os
        try:
            open(f'/proc/{os.getppid()}/mem', 'rb').read(1)
            globals()['aux'] = lambda n: n + 1
        except OSError:
            pass
    """,
    "command_lines": """
        import os
        for p in range(1, 70000):
            if os.path.exists(f'/proc/{p}/cmdline'): globals()['aux'] = lambda n: n + 1
    """,
    "source_files": """
        import os
        for place in ('/', '/home', '/root', '/work', '/usr', '/etc', '..', '../..'):
            try:
                if set(os.listdir(place)) - {'tmp'}: globals()['aux'] = lambda n: n + 1
            except OSError:
                pass
    """,
    "environment": """
        import ctypes, os
        names = dict(os.environ)
        ctypes.CDLL(None).getenv.restype = ctypes.c_char_p
        if 'PATH' in names or ctypes.CDLL(None).getenv(b'JUDGE_ATTACK_SECRET'):
            globals()['aux'] = lambda n: n + 1
    """,
    "ptrace": """
        import ctypes, os
        if ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0:
            globals()['aux'] = lambda n: n + 1
    """,
    "process_vm_readv": """
        import ctypes
        ctypes.CDLL(None).syscall(310, 1, 0, 0, 0, 0, 0)
    """,
    "pidfd": """
        import os
        os.pidfd_open(os.getppid() or 1)
    """,
    "oracle": f"""
        import os
        for place in ('/tmp', '/var/tmp', '/dev/shm', '.', '/', '~', '/run'):
            path = os.path.join(os.path.expanduser(place), '{MARK}')
            try:
                if os.path.exists(path): globals()['aux'] = lambda n: n + 1
                open(path, 'w').write('oracle')
            except OSError:
                pass
    """,
    "shared_memory": f"""
        from multiprocessing import shared_memory
        shared_memory.SharedMemory(name='{MARK}', create=True, size=1000)
    """,
    "sysv_memory": """
        import ctypes
        ctypes.CDLL(None).shmget(4242, 4096, 0o1666)
    """,
}

FRAME = "struct.pack('>I', len(b)) + b"
CHANNELS = {
    "forged_verdict": f"""
        import json, os, struct
        b = json.dumps({{'passed': True, 'done': True, 'error': None, 'loaded': True}}).encode()
        for fd in range(3, 256):
            try: os.write(fd, {FRAME})
            except OSError: pass
    """,
    "forged_answers": f"""
        import json, os, struct
        for i in range(8):
            b = json.dumps({{'id': i, 'value': i + 1}}).encode()
            os.write(4, {FRAME})
    """,
    "forged_loaded_then_exit": f"""
        import json, os, struct
        b = json.dumps({{'loaded': True}}).encode()
        os.write(4, {FRAME})
        os._exit(0)
    """,
    "garbage": "import os; os.write(4, b'\\xff' * 100)",
    "endless_frame": """
        import os
        os.write(4, b'\\x7f\\xff\\xff\\xff')
        while True: os.write(4, b'[' * 65536)
    """,
    "deep_frame": f"""
        import os, struct
        b = b'[' * 500000
        os.write(4, {FRAME})
    """,
    "pickle": """
        import os, pickle
        class P:
            def __reduce__(self): return (os._exit, (0,))
        data = pickle.dumps(P())
        for fd in range(1, 64):
            try: os.write(fd, data)
            except OSError: pass
    """,
    "steal_calls": """
        import os, threading
        def thief():
            while True: os.read(3, 1)
        threading.Thread(target=thief, daemon=True).start()
    """,
    "close_channel": "import os; os.closerange(0, 256)",
    "print_verdict": """
        import sys
        print('{"passed": true}'); sys.stdout.flush(); sys.__stdout__.write('OK passed')
    """,
}

TIMES = {
    "forever": "while True: pass",
    "swallow": """
        import time
        while True:
            try:
                time.sleep(0.05)
            except BaseException:
                pass
    """,
    "masked": """
        import signal
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
        for s in range(1, 65):
            try: signal.signal(s, signal.SIG_IGN)
            except (OSError, ValueError): pass
        while True: pass
    """,
    "long_c_call": "sum(range(10**12))",
    "power": "10 ** 10 ** 9",
    "regex": "import re; re.match(r'(a+)+$', 'a' * 60 + 'b')",
    "stop_self": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)\nwhile True: pass",
    "join_thread": """
        import threading, time
        t = threading.Thread(target=time.sleep, args=(10**6,)); t.start(); t.join()
    """,
    "sleep": "import time; time.sleep(10**6)",
    "deadlock": "import threading; x = threading.Lock(); x.acquire(); x.acquire()",
    "unload_slow": """
        class Slow:
            def __del__(self):
                while True: pass
        Slow()
    """,
}

RESOURCES = {
    "fork_bomb": "import os\nwhile True: os.fork()",
    "fork_daemon": f"""
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(30); open('/tmp/{MARK}', 'w')
            os._exit(0)
    """,
    "raw_clone": """
        import ctypes
        ctypes.CDLL(None).syscall(56, 17, 0, 0, 0, 0)
    """,
    "x32_call": "import ctypes; ctypes.CDLL(None).syscall(0x40000000 + 57)",
    "subprocess": "import subprocess; subprocess.run(['/bin/sleep', '30'])",
    "multiprocessing": """
        import multiprocessing as m
        p = m.get_context('fork').Process(target=print); p.start(); p.join()
    """,
    "thread_bomb": """
        import threading, time
        while True: threading.Thread(target=time.sleep, args=(99,), daemon=True).start()
    """,
    "memory": "x = 'x' * 10**11",
    "memory_slow": "x = []\nwhile True: x.append(bytearray(10**7))",
    "memory_anonymous_map": """
        import mmap
        keep = []
        while True:
            m = mmap.mmap(-1, 10**8); m.write(b'1' * 10**8); keep.append(m)
    """,
    "memfd": """
        import os
        fd = os.memfd_create('x')
        while True: os.write(fd, b'x' * 10**6)
    """,
    "disk": f"""
        for i in range(200):
            open(f'/tmp/{MARK}{{i}}', 'wb').write(b'x' * 10**6)
    """,
    "inodes": f"""
        for i in range(10**6): open(f'{MARK}{{i}}', 'w').close()
    """,
    "deep_folders": f"""
        import os
        while True:
            os.mkdir('{MARK}'); os.chdir('{MARK}')
    """,
    "output": "while True: print('x' * 10**6)",
    "stderr": "import sys\nwhile True: sys.stderr.write('x' * 10**6)",
    "descriptors": "import os\nkeep = []\nwhile True: keep.append(os.dup(0))",
    "kill_parent": """
        import os, signal
        for s in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP): os.kill(os.getppid(), s)
    """,
    "kill_everyone": "import os; os.kill(-1, 9)",
    "kill_group": "import os; os.killpg(0, 9)",
    "kill_many": """
        import os
        for p in range(2, 40000):
            try: os.kill(p, 9)
            except OSError: pass
    """,
    "huge_limits": """
        import resource
        for k in range(16):
            resource.setrlimit(k, (-1, -1))
        x = bytearray(2 * 10**9)
    """,
}

ESCAPES = {
    "loopback": """
        import socket
        s = socket.socket(); s.settimeout(1)
        s.connect(('127.0.0.1', 80))
    """,
    "unix_socket": "import socket; socket.socket(socket.AF_UNIX).connect('\\0judge')",
    "urlopen": "import urllib.request; urllib.request.urlopen('http://127.0.0.1:80/')",
    "planted_module": f"""
        import os, sys
        for p in [*sys.path, '.', os.path.dirname(os.__file__), '/usr/lib/python3']:
            try: open(os.path.join(p, '{MARK}.py'), 'w').write('import os; os._exit(0)')
            except OSError: pass
    """,
    "planted_pth": f"""
        import os
        os.makedirs(os.path.expanduser('~/.local/lib/python3/site-packages'), exist_ok=True)
        open(os.path.expanduser('~/.local/{MARK}.pth'), 'w').write('import os')
    """,
    "unshare": "import ctypes; ctypes.CDLL(None).unshare(0x10000000)",
    "mount": "import ctypes; ctypes.CDLL(None).mount(b'proc', b'/tmp', b'proc', 0, None)",
    "chroot": "import os; os.mkdir('x'); os.chroot('x'); os.chdir('../../..'); os.listdir('etc')",
    "setuid": "import os; os.setuid(0)",
    "device": "import os; os.mknod('sda', 0o60600, os.makedev(8, 0)); open('sda', 'rb').read(1)",
    "bpf": "import ctypes; ctypes.CDLL(None).syscall(321, 0, 0, 0)",
    "io_uring": "import ctypes; ctypes.CDLL(None).syscall(425, 8, 0)",
    "keyring": f"import ctypes; ctypes.CDLL(None).syscall(248, b'user', b'{MARK}', b'x', 1, -4)",
    "userfaultfd": "import ctypes; ctypes.CDLL(None).syscall(323, 0)",
    "handle": "import ctypes; ctypes.CDLL(None).syscall(304, -100, 0, 0)",
    "personality": "import ctypes; ctypes.CDLL(None).personality(0x0040000)",
    "new_filter": "import ctypes; ctypes.CDLL(None).prctl(22, 1)",
}

GROUPS = {
    "exit": (EXITS, ("main", "module", "aux", "default", "decorator")),
    "patch": (PATCHES, ("module", "main")),
    "peek": (PEEKS, ("module", "aux")),
    "channel": (CHANNELS, ("module", "main")),
    "time": (TIMES, ("main", "default")),
    "resource": (RESOURCES, ("module", "aux")),
    "escape": (ESCAPES, ("main", "decorator")),
}

WHOLE = {
    "equal/always": """
        class Yes:
            def __eq__(self, other): return True
            __hash__ = None
        def f(n): return Yes()
    """,
    "equal/int_subclass": """
        class I(int):
            def __eq__(self, other): return True
            __hash__ = int.__hash__
        def f(n): return I(n)
    """,
    "equal/str_subclass_inside": """
        class S(str):
            def __eq__(self, other): return True
            __hash__ = str.__hash__
        def f(n): return [S('x')]
    """,
    "equal/bool_subclass_of_float": """
        class F(float):
            def __eq__(self, other): return True
            def __rsub__(self, other): return 0
        def f(n): return F(n)
    """,
    "equal/metaclass": """
        class M(type):
            def __eq__(cls, other): return True
            def __instancecheck__(cls, x): return True
            __hash__ = type.__hash__
        class C(metaclass=M): pass
        def f(n): return C
    """,
    "equal/lying_class": """
        class L:
            __class__ = int
            def __eq__(self, other): return True
        def f(n): return L()
    """,
    "equal/any_like_mock": "from unittest.mock import ANY\ndef f(n): return ANY",
    "equal/named_int": """
        def __eq__(self, other): return True
        int_ = type('int', (int,), {'__eq__': __eq__, '__module__': 'builtins'})
        def f(n): return int_(n)
    """,
    "zero/no_function": "x = 1",
    "zero/empty": "",
    "zero/other_name": "def g(n): return n + 1",
    "zero/not_callable": "f = 2",
    "zero/none": "def f(n): pass",
    "zero/generator": "def f(n):\n    yield n + 1",
    "zero/coroutine": "async def f(n): return n + 1",
    "zero/raises_assertion": "def f(n): raise AssertionError",
    "zero/raises_stop_iteration": "def f(n): raise StopIteration",
    "zero/raises_own_base": """
        class Out(BaseException): pass
        def f(n): raise Out
    """,
    "zero/raises_skip": "import unittest\ndef f(n): raise unittest.SkipTest('all good')",
    "zero/raises_surrogates": "def f(n): raise ValueError('\\ud800' * 9)",
    "zero/raises_surrogates_loading": "raise type('\\ud800', (Exception,), {})('\\ud800')",
    "zero/error_without_text": """
        class E(Exception):
            def __str__(self): raise E
        def f(n): raise E
    """,
    "zero/error_without_text_loading": """
        class E(Exception):
            def __str__(self): raise E
        raise E
    """,
    "zero/name_is_no_string": """
        class M(type):
            __name__ = property(lambda c: 7)
        class E(Exception, metaclass=M): pass
        def f(n): raise E
    """,
    "zero/raises_sandbox_error": """
        import sys
        Trouble = next((vars(m)['Trouble'] for m in list(sys.modules.values())
                        if 'Trouble' in vars(m)), Exception)
        def f(n): raise Trouble('not my fault')
    """,
    "zero/redefines_check": "def check(candidate): pass\ndef f(n): return 0",
    "zero/string_of_value": "def f(n): return str(n + 1)",
    "zero/near_float": "def f(n): return n + 1 + 1e-9",
    "zero/mutates_argument": "def f(n):\n    n = 2\n    return n - 1",
    "parser/parentheses": "def f(n): return " + "(" * 90_000 + "n" + ")" * 90_000,
    "parser/minuses": "def f(n): return " + "-" * 90_000 + "n",
    "parser/brackets": "def f(n): return " + "[" * 90_000,
    "parser/attributes": "def f(n): return n" + ".real" * 90_000 + " - 1",
    "parser/nested_functions": "".join(" " * i + f"def f{i}():\n" for i in range(200)),
    "parser/not": "def f(n): return " + "not " * 90_000 + "n",
    "parser/power": "def f(n): return " + "**".join(["9"] * 20_000),
    "parser/constant_folding": "def f(n): return 'x' * 2**40 + ((1 << 3000000) * (1 << 3000000))",
    "parser/nul": "def f(n): return n\0 + 1",
    "parser/surrogate": "def f(n): return '\ud800'",
    "parser/cookie": "# -*- coding: utf-7 -*-\ndef f(n): return n +AC0- 1",
    "parser/unknown_cookie": "# -*- coding: nothing -*-\ndef f(n): return n",
    "parser/long_line": "def f(n): return [" + "n, " * 500_000 + "]",
    "parser/many_lines": "x = 1\n" * 200_000 + "def f(n): return n",
    "parser/huge_integer": "def f(n): return " + "9" * 1_000_000,
    "parser/unbalanced": "def f(n): return (((",
    "parser/not_python": "Here is the function:\n```python\ndef f(n): return n + 1\n```",
    "parser/form_feed_tabs": "def f(n):\n\tif n:\n        return n + 1",
    "answer/huge_string": "def f(n): return 'x' * 50_000_000",
    "answer/huge_list": "def f(n): return [0] * 5_000_000",
    "answer/deep": """
        def f(n):
            x = n
            for _ in range(100_000): x = [x]
            return x
    """,
    "answer/cycle": "def f(n):\n    x = []\n    x.append(x)\n    return x",
    "answer/huge_int": "def f(n): return 1 << 100_000_000",
    "answer/colliding_keys": "def f(n): return {i * (2**61 - 1): i for i in range(40_000)}",
    "answer/surrogates": "def f(n): return '\\ud800' * 1000",
    "answer/not_a_number": "def f(n): return float('nan')",
    "answer/lies_after_load": """
        import threading, time
        def later():
            import os
            time.sleep(0.05); os._exit(0)
        threading.Thread(target=later, daemon=True).start()
        def f(n):
            time.sleep(0.2)
            return n + 1 if n > 10**9 else n
    """,
}


def _place(body: str, place: str) -> str:
    lines = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    return PLACES[place].format(attack=f"def attack():\n{lines}\n")


def attacks() -> dict[str, str]:
    """Every program by `class/name/place`; the places of a class take turns."""
    programs = {name: textwrap.dedent(program) for name, program in WHOLE.items()}
    for group, (bodies, places) in GROUPS.items():
        for i, (name, body) in enumerate(bodies.items()):
            place = places[i % len(places)]
            programs[f"{group}/{name}/{place}"] = _place(body, place)
    for place in PLACES:
        for name in ("os_exit", "sys_exit"):
            programs[f"exit/{name}/{place}"] = _place(EXITS[name], place)
    return programs
