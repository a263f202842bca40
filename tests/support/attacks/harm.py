"""Attacks on the machine: its time, its resources, and the isolation of the jail."""

from support.attacks.mark import MARK

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
