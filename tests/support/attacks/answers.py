"""Attacks on the verdict: exiting, patching, peeking, and writing to the test runner."""

from support.attacks.mark import MARK

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
