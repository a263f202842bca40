"""System calls by permission, and their numbers.

Each entry is `name:x86_64:aarch64`, with `-` if the processor has no such call. The numbers come
from Linux's `unistd_64.h` and `asm-generic/unistd.h`. They never change.
"""

from __future__ import annotations

MACHINES = ("x86_64", "aarch64")


def numbers(table: str, machine: str) -> dict[str, int]:
    """Return the numbers of a table's calls on a `machine` of MACHINES."""
    column = 1 + MACHINES.index(machine)
    entries = (entry.split(":") for entry in table.split())
    return {entry[0]: int(entry[column]) for entry in entries if entry[column] != "-"}


ALLOWED = """
read:0:63 write:1:64 readv:19:65 writev:20:66 pread64:17:67 pwrite64:18:68 preadv:295:69
pwritev:296:70 preadv2:327:286 pwritev2:328:287 lseek:8:62 close:3:57 close_range:436:436
dup:32:23 dup2:33:- dup3:292:24 pipe:22:- pipe2:293:59 poll:7:- ppoll:271:73 select:23:-
pselect6:270:72 epoll_create:213:- epoll_create1:291:20 epoll_ctl:233:21 epoll_wait:232:-
epoll_pwait:281:22 eventfd:284:- eventfd2:290:19 open:2:- openat:257:56 creat:85:- stat:4:-
fstat:5:80 lstat:6:- newfstatat:262:79 statx:332:291 access:21:- faccessat:269:48
faccessat2:439:439 readlink:89:- readlinkat:267:78 getcwd:79:17 chdir:80:49 fchdir:81:50
getdents:78:- getdents64:217:61 mkdir:83:- mkdirat:258:34 rmdir:84:- unlink:87:-
unlinkat:263:35 rename:82:- renameat:264:38 renameat2:316:276 link:86:- linkat:265:37
symlink:88:- symlinkat:266:36 truncate:76:45 ftruncate:77:46 fsync:74:82 fdatasync:75:83
fadvise64:221:223 fallocate:285:47 flock:73:32 chmod:90:- fchmod:91:52 fchmodat:268:53
utimensat:280:88 umask:95:166 statfs:137:43 fstatfs:138:44 munmap:11:215
mprotect:10:226 mremap:25:216 brk:12:214 membarrier:324:283
set_robust_list:273:99 get_robust_list:274:100 rseq:334:293 gettid:186:178
set_tid_address:218:96 sched_yield:24:124 sched_getaffinity:204:123 sched_getparam:143:121
sched_getscheduler:145:120 sched_get_priority_max:146:125 sched_get_priority_min:147:126
getcpu:309:168 rt_sigaction:13:134 rt_sigprocmask:14:135 rt_sigreturn:15:139
rt_sigpending:127:136 rt_sigtimedwait:128:137 rt_sigsuspend:130:133 sigaltstack:131:132
restart_syscall:219:128 pause:34:- alarm:37:- setitimer:38:103 getitimer:36:102
clock_gettime:228:113 clock_getres:229:114 clock_nanosleep:230:115 nanosleep:35:101
gettimeofday:96:169 time:201:- times:100:153 getrusage:98:165 getrlimit:97:163
getpriority:140:141 uname:63:160 getrandom:318:278 getpid:39:172
getppid:110:173 getpgrp:111:- getpgid:121:155 getsid:124:156 getuid:102:174 geteuid:107:175
getgid:104:176 getegid:108:177 getgroups:115:158 getresuid:118:148 getresgid:120:150
wait4:61:260 waitid:247:95 exit:60:93 exit_group:231:94
"""
"""Calls for computing, threads, time, and files in the worker's own folder.

sysinfo is missing, because it shows how busy and how full an earlier trial left the machine.
"""

HOSTILE = """
fork:57:- vfork:58:- execve:59:221 execveat:322:281 ptrace:101:117 process_vm_readv:310:270
process_vm_writev:311:271 process_madvise:440:440 kcmp:312:272 memfd_create:319:279
memfd_secret:447:447 mount:165:40 umount2:166:39 pivot_root:155:41 chroot:161:51
move_mount:429:429 open_tree:428:428 fsopen:430:430 fsmount:432:432 fsconfig:431:431
fspick:433:433 mount_setattr:442:442 unshare:272:97 setns:308:268 bpf:321:280
io_uring_setup:425:425 io_uring_enter:426:426 io_uring_register:427:427 userfaultfd:323:282
perf_event_open:298:241 keyctl:250:219 add_key:248:217 request_key:249:218 socket:41:198
bind:49:200 connect:42:203 listen:50:201 accept:43:202 accept4:288:242 sendto:44:206
sendmsg:46:211 sendmmsg:307:269 recvmsg:47:212 recvfrom:45:207 recvmmsg:299:243
tkill:200:130 pidfd_open:434:434 pidfd_getfd:438:438 pidfd_send_signal:424:424
rt_sigqueueinfo:129:138 rt_tgsigqueueinfo:297:240 init_module:175:105 finit_module:313:273
delete_module:176:106 kexec_load:246:104 kexec_file_load:320:294 reboot:169:142
swapon:167:224 swapoff:168:225 setuid:105:146 setgid:106:144 setreuid:113:145
setregid:114:143 setresuid:117:147 setresgid:119:149 setgroups:116:159 capset:126:91
open_by_handle_at:304:265 name_to_handle_at:303:264 shmget:29:194 shmat:30:196 semget:64:190
msgget:68:186 mq_open:240:180 personality:135:92 sethostname:170:161 setdomainname:171:162
mknod:133:- mknodat:259:33 quotactl:179:60 acct:163:89 syslog:103:116 iopl:172:-
ioperm:173:- modify_ldt:154:-
"""
"""Calls that only an attack makes: the process is killed with SIGSYS."""

CONDITIONAL = """
clone:56:220 clone3:435:435 futex:202:98 kill:62:129 tgkill:234:131 fcntl:72:25 ioctl:16:29
prctl:157:167 madvise:28:233 mmap:9:222
prlimit64:302:261 socketpair:53:199
"""
"""Calls that are allowed depending on their arguments. See `seccomp`."""
