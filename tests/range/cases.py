"""The table of attempts: category, name, what is tried. F holds the facts of place.py, NR the numbers of system calls.

Every attempt here must be refused. `leak`, where it is set, is what was seen: nothing seen is refused too.
Those under HARMLESS may go through inside; what counts is that nothing outside has changed (drive.py looks).
"""

# ruff: noqa: E501  # one attempt, one line

from __future__ import annotations

READS = {
    "a file beside the workspace": "read(F['canary'])",
    "the folder beside the workspace": "leak = os.listdir(F['outside'])",
    "the parent of the workspace": "leak = set(os.listdir(F['top'])) - set(F['shown'])",
    "by dots": "read(F['workspace'] + '/../outside/canary')",
    "by dots from the root": "read('/..' + F['canary'])",
    "by a link made inside": "os.symlink(F['canary'], 'l1'); read('l1')",
    "by a link to a folder": "os.symlink(F['outside'], 'l2'); read('l2/canary')",
    "by a hard link made inside": "os.link(F['canary'], 'l3'); read('l3')",
    "by /proc/self/root": "read('/proc/self/root' + F['canary'])",
    "by /proc/self/cwd": "read('/proc/self/cwd/../outside/canary')",
    "by the root of process 1": "read('/proc/1/root' + F['canary'])",
    "by the folder of process 1": "leak = 'outside' in os.listdir('/proc/1/cwd/..')",
    "the user's home": "leak = F['home entries'] and set(os.listdir(F['home'])) & set(F['home entries'])",
    "/root": "leak = [n for n in os.listdir('/root') if not F['workspace'].startswith('/root/')]",
    "/home": "leak = os.listdir('/home')",
    "keys of ssh": "leak = os.listdir(F['home'] + '/.ssh')",
    "/etc/shadow": "read('/etc/shadow')",
    "the machine's id": "read('/etc/machine-id')",
    "the host's own passwd": "leak = F['user canary'] in read('/etc/passwd', 100000).decode()",
    "/var": "leak = (set(os.listdir('/var')) - {'tmp'}) | (set(os.listdir('/var/tmp')) - {os.path.basename(F['top'])})",
    "/run": "leak = set(os.listdir('/run')) & set(F['run entries'])",
    "the host's /tmp": "leak = set(os.listdir('/tmp')) & set(F['tmp entries'])",
    "the host's /dev/shm": "read('/dev/shm/' + F['shm file'])",
    "/boot": "leak = os.listdir('/boot')",
    "/sys": "leak = os.listdir('/sys/class/net') + os.listdir('/sys/fs/cgroup')",
    "/sys/kernel": "leak = os.listdir('/sys/kernel/debug')",
    "block devices": "leak = [n for n in os.listdir('/dev') if n.startswith(('sd', 'vd', 'nvme', 'loop', 'dm-'))]",
    "memory of the machine": "os.open('/dev/mem', os.O_RDONLY)",
    "the kernel's log": "os.open('/dev/kmsg', os.O_RDONLY)",
    "kvm, fuse, tun": "leak = [n for n in ('kvm', 'fuse', 'net/tun', 'vsock', 'vhost-vsock') if os.path.exists('/dev/' + n)]",
    "a hidden folder": "read(F['hidden'] + '/secret')",
    "names in a hidden folder": "leak = os.listdir(F['hidden'])",
    "an old name of a hidden folder": "os.rename(F['hidden'], 'seen'); read('seen/secret')",
    "other layers of the overlay": "leak = [w for w in read('/proc/self/mountinfo', 1 << 20).decode().split() if 'canary' in w]",
    "a device of the tree": "read('device')",
    "a folder of an earlier command": "leak = os.path.exists(F['upper'])",
}

WRITES = {
    "over a file outside": "write(F['canary'])",
    "at the end of a file outside": "os.open(F['canary'], os.O_WRONLY | os.O_APPEND)",
    "a new file outside": "write(F['outside'] + '/new')",
    "a new folder outside": "os.mkdir(F['outside'] + '/newdir')",
    "remove a file outside": "os.remove(F['canary'])",
    "rename a file outside": "os.rename(F['canary'], F['canary'] + '2')",
    "truncate a file outside": "os.truncate(F['canary'], 0)",
    "mode of a file outside": "os.chmod(F['canary'], 0o777)",
    "times of a file outside": "os.utime(F['canary'], (1, 1))",
    "owner of a file outside": "os.chown(F['canary'], os.getuid(), os.getgid())",
    "attributes of a file outside": "os.setxattr(F['canary'], 'user.hostile', b'1')",
    "in the top folder": "write(F['top'] + '/new')",
    "in the root": "write('/new')",
    "in /etc": "write('/etc/ld.so.preload')",
    "in /usr": "write('/usr/bin/hostile')",
    "over a program": "os.open('/usr/bin/env', os.O_WRONLY)",
    "mode of a program": "os.chmod('/usr/bin/env', 0o777)",
    "in a folder given for reading": "write(F['reads'] + '/new')",
    "over a file given for reading": "os.open(F['reads'] + '/file', os.O_WRONLY)",
    "mode of a file given for reading": "os.chmod(F['reads'] + '/file', 0o777)",
    "in a hidden folder": "write(F['hidden'] + '/new')",
    "by /proc/self/root": "write('/proc/self/root' + F['canary'])",
    "by a link in the folder for writing": "os.symlink(F['outside'], F['writes'] + '/out'); write(F['writes'] + '/out/new')",
    "by dots out of the folder for writing": "write(F['writes'] + '/../outside/new')",
    "a device": "os.mknod('/tmp/null', stat.S_IFCHR | 0o666, os.makedev(1, 3))",
    "a block device": "os.mknod('/tmp/disk', stat.S_IFBLK | 0o666, os.makedev(8, 0))",
    "a device in the workspace": "os.mknod('null', stat.S_IFCHR | 0o666, os.makedev(1, 3))",
    "a whiteout by hand": "os.mknod('white', stat.S_IFCHR, os.makedev(0, 0))",
    "a set-uid file": "write('/tmp/s1'); os.chmod('/tmp/s1', 0o4755)",
    "a set-uid file in the workspace": "os.open('s2', os.O_CREAT | os.O_WRONLY, 0o4755)",
    "a set-uid file for real": "os.open(F['writes'] + '/s3', os.O_CREAT | os.O_WRONLY, 0o4755)",
    "a set-gid file": "write('/tmp/g1'); os.chmod('/tmp/g1', 0o2755)",
    "a set-gid file in the workspace": "os.open('g2', os.O_CREAT | os.O_WRONLY, 0o2755)",
    "a set-gid file for real": "os.open(F['writes'] + '/g3', os.O_CREAT | os.O_WRONLY, 0o2755)",
    "a set-gid file for real, by chmod": "write(F['writes'] + '/g4'); os.chmod(F['writes'] + '/g4', 0o2755)",
    "a set-gid file by mknod": "os.mknod(F['writes'] + '/g5', stat.S_IFREG | 0o2755)",
    "a lease on a program": "import fcntl; fcntl.fcntl(os.open('/usr/bin/env', os.O_RDONLY), 1024, 1)",
    "a lease on a file given for reading": "import fcntl; fcntl.fcntl(os.open(F['reads'] + '/file', os.O_RDONLY), 1024, 1)",
    "file capabilities": "write('s4'); os.setxattr('s4', 'security.capability', bytes.fromhex('01000002' + 'ff' * 16))",
    "the overlay's own attributes": "os.mkdir('red'); os.setxattr('red', 'trusted.overlay.redirect', b'/outside')",
    "a layer's redirection": "os.mkdir('rex'); os.setxattr('rex', 'user.overlay.redirect', b'/outside'); read('rex/canary')",
}

PROC = {
    "see a process outside": "leak = F['victim'] in pids() and start_time(F['victim']) == F['victim start']",
    "more processes than its own": "leak = [p for p in pids() if p > 10000] or len(pids()) > 60",
    "arguments of a process outside": "leak = [p for p in pids() if F['victim mark'].encode() in read(f'/proc/{p}/cmdline', 9999)]",
    "paths of the host in process 1": "leak = [w for w in (F['outside'], 'upper', 'bwrap-') if w.encode() in read('/proc/1/cmdline', 99999)]",
    "environment of process 1": "leak = F['key name'].encode() in read('/proc/1/environ', 99999)",
    "environment of any process": "leak = [p for p in pids() if F['key name'].encode() in read(f'/proc/{p}/environ', 99999)]",
    "memory of process 1": """
with open('/proc/1/maps') as maps, open('/proc/1/mem', 'rb', 0) as memory:
    leak = False
    for line in maps:
        if 'stack' in line or 'heap' in line:
            low, high = (int(n, 16) for n in line.split()[0].split('-'))
            memory.seek(low); leak = leak or F['key name'].encode() in memory.read(high - low)
""",
    "write memory of process 1": "os.open('/proc/1/mem', os.O_RDWR); leak = False",
    "descriptors of process 1": "leak = [l for l in (os.readlink(f'/proc/1/fd/{n}') for n in os.listdir('/proc/1/fd')) if l.startswith('/') and not l.startswith('/dev/')]",
    "core pattern": "os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)",
    "modprobe": "os.open('/proc/sys/kernel/modprobe', os.O_WRONLY)",
    "panic": "os.open('/proc/sys/kernel/panic', os.O_WRONLY)",
    "dirty pages": "os.open('/proc/sys/vm/drop_caches', os.O_WRONLY)",
    "number of files": "os.open('/proc/sys/fs/file-max', os.O_WRONLY)",
    "binfmt_misc": "os.open('/proc/sys/fs/binfmt_misc/register', os.O_WRONLY)",
    "sysrq": "os.open('/proc/sysrq-trigger', os.O_WRONLY)",
    "interrupts": "leak = [p for p in ('/proc/irq/default_smp_affinity',) if os.open(p, os.O_WRONLY)]",
    "memory by kcore": "leak = os.pread(os.open('/proc/kcore', os.O_RDONLY), 4, 0)",
    "kernel addresses": "leak = [l for l in read('/proc/kallsyms', 4096).split(b'\\n') if l and not l.startswith(b'0000000000000000')]",
    "user map": "os.open('/proc/self/uid_map', os.O_WRONLY); write('/proc/self/uid_map', b'0 0 4294967295')",
    "oom score": "write('/proc/self/oom_score_adj', b'-1000')",
    "oom score of process 1": "write('/proc/1/oom_score_adj', b'-1000')",
    "keys and memory of the host": """
leak = []
for name in ('keys', 'key-users', 'slabinfo', 'vmallocinfo', 'pagetypeinfo', 'kpagecount', 'kpageflags', 'kpagecgroup', 'allocinfo'):
    try:
        leak += [name] if read('/proc/' + name) and os.getuid() == 0 else []
    except OSError:
        pass
""",
    "timer list": "leak = read('/proc/timer_list')",
    "disks": "leak = [l for l in ('/proc/scsi/scsi', '/proc/acpi/wakeup') if os.open(l, os.O_WRONLY)]",
    "mount options of bound folders": "leak = [l for l in open('/proc/self/mountinfo') if ' - overlay ' not in l and 'nosuid' not in l.split(' - ')[0]]",
    "an own pid namespace of the host": "leak = os.readlink('/proc/self/ns/pid') == F['namespaces']['pid']",
    "the host's network namespace": "leak = os.readlink('/proc/self/ns/net') == F['namespaces']['net']",
    "the host's mount namespace": "leak = os.readlink('/proc/self/ns/mnt') == F['namespaces']['mnt']",
    "the host's ipc namespace": "leak = os.readlink('/proc/self/ns/ipc') == F['namespaces']['ipc']",
    "the host's uts namespace": "leak = os.readlink('/proc/self/ns/uts') == F['namespaces']['uts']",
    "the host's user namespace": "leak = os.readlink('/proc/self/ns/user') == F['namespaces']['user']",
    "the host's cgroup namespace": "leak = os.readlink('/proc/self/ns/cgroup') == F['namespaces']['cgroup']",
}

NAMESPACES = {
    "user": "call(NR['unshare'], 0x10000000)",
    "user and mount": "call(NR['unshare'], 0x10000000 | 0x20000)",
    "user and network": "call(NR['unshare'], 0x10000000 | 0x40000000)",
    "mount": "call(NR['unshare'], 0x20000)",
    "pid": "call(NR['unshare'], 0x20000000)",
    "ipc": "call(NR['unshare'], 0x08000000)",
    "uts": "call(NR['unshare'], 0x04000000)",
    "cgroup": "call(NR['unshare'], 0x02000000)",
    "time": "call(NR['unshare'], 0x80)",
    "user by clone": "call(NR['clone'], 0x10000000 | 17, 0, 0, 0, 0) or os._exit(0)",
    "user by clone3": "call(NR['clone3'], ctypes.create_string_buffer(struct.pack('QQQQQQQQ', 0x10000000, 0, 0, 0, 17, 0, 0, 0)), 64) or os._exit(0)",
    "user by unshare(1)": "leak = subprocess.run(['unshare', '-Ur', 'true'], capture_output=True).returncode == 0",
    "bwrap in bwrap": "leak = subprocess.run([F['bwrap'], '--unshare-user', '--ro-bind', '/', '/', 'true'], capture_output=True).returncode == 0",
    "join that of process 1": "call(NR['setns'], os.open('/proc/1/ns/mnt', os.O_RDONLY), 0)",
    "join by pidfd": "call(NR['setns'], os.pidfd_open(1), 0x20000)",
    "mount tmpfs": "call(NR['mount'], b'x', b'/tmp', b'tmpfs', 0, 0)",
    "mount proc": "call(NR['mount'], b'proc', b'/tmp', b'proc', 0, 0)",
    "bind": "call(NR['mount'], b'/usr', b'/tmp', 0, 4096, 0)",
    "remount writable": "call(NR['mount'], b'', b'/usr', 0, 32 | 4096, 0)",
    "unmount a hidden folder": "call(NR['umount2'], F['hidden'].encode(), 2)",
    "unmount the workspace": "call(NR['umount2'], F['workspace'].encode(), 2)",
    "unmount /proc/sys": "call(NR['umount2'], b'/proc/sys', 2)",
    "open_tree": "call(NR['open_tree'], -100, b'/', 1)",
    "fsopen": "call(NR['fsopen'], b'tmpfs', 0)",
    "mount_setattr": "call(NR['mount_setattr'], -100, b'/', 0, bytes(32), 32)",
    "pivot_root": "call(NR['pivot_root'], b'.', b'.')",
    "chroot": "call(NR['chroot'], b'/tmp')",
    "open by handle": "call(NR['open_by_handle_at'], os.open('/', os.O_RDONLY), bytes(64), 0)",
    "name to handle": "call(NR['name_to_handle_at'], -100, b'/usr', ctypes.create_string_buffer(struct.pack('I', 128) + bytes(132)), ctypes.byref(ctypes.c_int()), 0)",
    "host name": "libc.sethostname(b'hostile', 7) == 0 or call(NR['sethostname'], b'hostile', 7)",
    "su": "leak = subprocess.run(['su', 'root', '-c', 'true'], capture_output=True, stdin=subprocess.DEVNULL).returncode == 0 and os.getuid() != 0",
    "another user": "os.setresuid(12345, 12345, 12345)",
    "another group": "os.setgroups([0, 27, 999])",
    "capabilities": "leak = int(re.search(r'CapEff:\\s*(\\w+)', open('/proc/self/status').read())[1], 16)",
    "bounding capabilities": "leak = int(re.search(r'CapPrm:\\s*(\\w+)', open('/proc/self/status').read())[1], 16)",
    "new privileges": "leak = 'NoNewPrivs:\\t0' in open('/proc/self/status').read()",
}

# Families that a kernel may have, by name; UNIX, INET, INET6 and NETLINK are tried in other ways.
_FAMILIES = {
    "AX25": 3, "IPX": 4, "APPLETALK": 5, "X25": 9, "PACKET": 17, "RDS": 21, "LLC": 26, "IB": 27, "CAN": 29, "TIPC": 30,
    "BLUETOOTH": 31, "RXRPC": 33, "PHONET": 35, "IEEE802154": 36, "CAIF": 37, "ALG": 38, "NFC": 39, "VSOCK": 40,
    "KCM": 41, "QIPCRTR": 42, "SMC": 43, "XDP": 44, "MCTP": 45,
}  # fmt: skip
SOCKETS = {
    name: f"""
leak = []
for kind in (1, 2, 3, 4, 5, 10):
    try:
        socket.socket({number}, kind).close(); leak.append(kind)
    except OSError:
        pass
"""
    for name, number in ((f"family {name}", number) for name, number in _FAMILIES.items())
}
SOCKETS |= {
    "tcp": "connect(2, ('127.0.0.1', F['tcp']))",
    "tcp by name": "connect(2, ('localhost', F['tcp']))",
    "tcp to 0.0.0.0": "connect(2, ('0.0.0.0', F['tcp']))",
    "tcp to another loopback address": "connect(2, ('127.1.2.3', F['tcp']))",
    "tcp6": "connect(10, ('::1', F['tcp6']))",
    "tcp6 to a mapped address": "connect(10, ('::ffff:127.0.0.1', F['tcp']))",
    "udp": "connect(2, ('127.0.0.1', F['udp']), 2); leak = False",
    "multipath tcp": "connect(2, ('127.0.0.1', F['tcp']), 1, 262)",
    "tcp fast open": "socket.socket(2, 1).sendto(b'x', 0x20000000, ('127.0.0.1', F['tcp']))",
    "sctp": "connect(2, ('127.0.0.1', F['tcp']), 1, 132)",
    "raw": "socket.socket(2, 3, 255)",
    "icmp": "socket.socket(2, 3, 1)",
    "an interface besides lo": "leak = [n for _, n in socket.if_nameindex() if n != 'lo']",
    "routes": "leak = open('/proc/net/route').read().splitlines()[1:]",
    "listeners of the host": "leak = f':{F[\"tcp\"]:04X} ' in open('/proc/net/tcp').read()",
    "sockets of the host": "leak = F['unix'] in open('/proc/net/unix').read()",
    "a name of the internet": "leak = socket.getaddrinfo('example.invalid', 80)",
    "netlink generic": "socket.socket(16, 3, 16)",
    "netlink audit": "socket.socket(16, 3, 9)",
    "netlink netfilter": "socket.socket(16, 3, 12)",
    "netlink sock diag": "socket.socket(16, 3, 4)",
    "abstract": "connect(1, '\\0' + F['abstract'])",
    "abstract datagram": "connect(1, '\\0' + F['abstract datagram'], 2)",
    "unix socket outside": "connect(1, F['unix'])",
    "unix socket by /proc/self/root": "connect(1, '/proc/self/root' + F['unix'])",
    "unix datagram outside": "connect(1, F['unix datagram'], 2)",
    "unix socket in the workspace": "connect(1, F['unix in workspace'])",
    "unix socket in the workspace, linked": "os.link('service', 'again'); connect(1, 'again')",
    "unix socket in the workspace, renamed": "os.rename('service2', 'again2'); connect(1, 'again2')",
    "unix socket in the workspace, after chmod": "os.chmod('service3', 0o700); connect(1, 'service3')",
    "unix socket in a folder for reading": "connect(1, F['unix in reads'])",
    "unix socket in a hidden folder": "connect(1, F['hidden'] + '/service')",
    "docker's socket": "connect(1, '/var/run/docker.sock')",
    "system bus": "connect(1, '/run/dbus/system_bus_socket')",
    "syslog": "connect(1, '/dev/log', 2)",
}

DESCRIPTORS = {
    "more than three": "leak = [n for n in os.listdir('/proc/self/fd') if int(n) > 2 and os.path.exists(f'/proc/self/fd/{n}') and not os.readlink(f'/proc/self/fd/{n}').startswith(('pipe:', '/proc/'))]",
    "a folder of the host": "leak = [n for n in range(3, 1024) if os.path.isdir(f'/proc/self/fd/{n}') and not os.readlink(f'/proc/self/fd/{n}').startswith('/proc')]",
    "standard output is a file": "leak = stat.S_ISREG(os.fstat(1).st_mode)",
    "reopen standard output and cut it": "fd = os.open('/proc/self/fd/1', os.O_WRONLY); os.ftruncate(fd, 0)",
    "standard error is a file": "leak = stat.S_ISREG(os.fstat(2).st_mode)",
    "a terminal": "os.open('/dev/tty', os.O_RDWR)",
    "words into a terminal": "import fcntl; fcntl.ioctl(0, 0x5412, b'x')",
    "words into an own terminal": "import fcntl; a, b = os.openpty(); fcntl.ioctl(b, 0x5412, b'x')",
    "the console": "os.open('/dev/console', os.O_RDWR)",
    "a descriptor of another process": "call(NR['pidfd_getfd'], os.pidfd_open(os.getppid()), 0, 0)",
    "descriptors of the parent": "leak = [l for l in (os.readlink(f'/proc/{os.getppid()}/fd/{n}') for n in os.listdir(f'/proc/{os.getppid()}/fd')) if F['outside'] in l]",
    "a memory file outside": "leak = [l for l in (os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if os.path.lexists(f'/proc/self/fd/{n}')) if 'memfd' in l]",
}

PROCESSES = {
    "signal by number": "os.kill(F['victim'], 9)",
    "signal to a group": "os.killpg(F['victim'], 9)",
    "signal by pidfd": "fd = os.pidfd_open(F['victim']); signal.pidfd_send_signal(fd, 9)",
    "signal by sigqueue": "call(NR['rt_sigqueueinfo'], F['victim'], 9, bytes(128))",
    "signal to orchestra": "os.kill(F['orchestra'], 9)",
    "signal process 1": "os.kill(1, 9); time.sleep(0.05); leak = not os.path.exists('/proc/1')",
    "stop process 1": "os.kill(1, 19); leak = ' T ' in open('/proc/1/stat').read()",
    "trace process 1": "call(NR['ptrace'], 16, 1, 0, 0)",
    "seize process 1": "call(NR['ptrace'], 0x4206, 1, 0, 0)",
    "trace a child": "p = os.posix_spawn('/bin/sleep', ['sleep', '1'], {}); call(NR['ptrace'], 16, p, 0, 0)",
    "be traced": "call(NR['ptrace'], 0, 0, 0, 0)",
    "read another's memory": "b = ctypes.create_string_buffer(8); v = struct.pack('QQ', ctypes.addressof(b), 8); call(NR['process_vm_readv'], os.getppid(), v, 1, v, 1, 0)",
    "write another's memory": "b = ctypes.create_string_buffer(8); v = struct.pack('QQ', ctypes.addressof(b), 8); call(NR['process_vm_writev'], os.getppid(), v, 1, v, 1, 0)",
    "compare processes": "call(NR['kcmp'], os.getpid(), os.getppid(), 2, 0, 0)",
    "limits of a process outside": "import resource; resource.prlimit(F['victim'], resource.RLIMIT_NOFILE, (0, 0))",
    "higher limits": "call(NR['prlimit64'], 0, 6, struct.pack('QQ', 1 << 20, 1 << 20), 0)",
    "core files": "import resource; leak = resource.getrlimit(resource.RLIMIT_CORE)[1] != 0",
    "more priority": "os.setpriority(os.PRIO_PROCESS, 0, -10)",
    "priority of a process outside": "os.setpriority(os.PRIO_PROCESS, F['victim'], 19)",
    "real time": "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))",
    "processor of a process outside": "os.sched_setaffinity(F['victim'], {0})",
}

ENVIRONMENT = {
    "a key by name": "leak = os.environ.get(F['key name'])",
    "names that were not given": "leak = set(os.environ) - set(F['given']) - {'PWD'}",
    "a key in any process": "leak = [p for p in pids() if F['key name'].encode() in read(f'/proc/{p}/environ', 1 << 20)]",
    "what a shell sees": "leak = F['key name'] in subprocess.run(['/bin/sh', '-c', 'env'], capture_output=True, text=True).stdout",
    "preloading": "leak = os.environ.get('LD_PRELOAD') or os.environ.get('PYTHONPATH')",
    "an agent of ssh": "leak = os.environ.get('SSH_AUTH_SOCK') or os.environ.get('DBUS_SESSION_BUS_ADDRESS')",
    "the host's name": "leak = os.uname().nodename == F['host name']",
    "the user's name": "import pwd; leak = [e.pw_name for e in pwd.getpwall() if e.pw_name == F['user canary']]",
    "the real home": "leak = F['home entries'] and os.path.isdir(os.path.expanduser('~')) and set(os.listdir(os.path.expanduser('~'))) & set(F['home entries'])",
}

KERNEL = {
    "keyring": "call(NR['keyctl'], 0, -4, 0)",
    "add a key": "call(NR['add_key'], b'user', b'hostile', b'x', 1, -4)",
    "ask for a key": "call(NR['request_key'], b'user', b'hostile', 0, -4)",
    "bpf": "call(NR['bpf'], 0, bytes(120), 120)",
    "perf": "call(NR['perf_event_open'], bytes(128), 0, -1, -1, 0)",
    "userfaultfd": "call(NR['userfaultfd'], 1)",
    "io_uring": "call(NR['io_uring_setup'], 1, ctypes.create_string_buffer(120))",
    "fanotify": "call(NR['fanotify_init'], 0x200, 0)",
    "secret memory": "call(NR['memfd_secret'], 0)",
    "load a module": "call(NR['finit_module'], 0, b'', 0)",
    "load a module from memory": "call(NR['init_module'], b'x', 1, b'')",
    "load a kernel": "call(NR['kexec_load'], 0, 0, 0, 0)",
    "restart": "call(NR['reboot'], 0xFEE1DEAD, 672274793, 0, 0)",
    "set the clock": "call(NR['clock_settime'], 0, struct.pack('qq', int(time.time()), 0))",
    "adjust the clock": "call(NR['adjtimex'], ctypes.create_string_buffer(256))",
    "swap": "call(NR['swapon'], b'/tmp/x', 0)",
    "accounting": "call(NR['acct'], 0)",
    "quota": "call(NR['quotactl'], 0x800007 << 8, 0, 0, 0)",
    "the kernel's log": "call(NR['syslog'], 3, ctypes.create_string_buffer(100), 100)",
    "personality without randomness": "call(NR['personality'], 0x40000)",
    "personality where reading is executing": "call(NR['personality'], 0x400000)",
    "a call of tomorrow": "call(470)",
    "an x32 call": "call(0x40000000 | 39)",
    "a 32-bit call": """
import mmap, platform
if platform.machine() != 'x86_64': raise OSError(38, '')
page = mmap.mmap(-1, 4096, prot=7)
page.write(bytes.fromhex('b814000000cd80c3'))
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
""",
    "ports": "call(NR.get('iopl', 470), 3)",
    "local descriptor tables": "call(NR.get('modify_ldt', 470), 0, 0, 0)",
    "much shared memory": "call(NR['shmget'], 0, 50 << 20, 0o1600)",
    "shared memory of 4 GiB": "call(NR['shmget'], 0, 1 << 32, 0o1600)",
    "many semaphores": "call(NR['semget'], 0, 32000, 0o1600)",
    "a message queue": "call(NR['msgget'], 0, 0o1600)",
    "closed to the watchdog": "call(NR['prctl'], 4, 0, 0, 0, 0)",
    "shared memory outside": "call(NR['shmget'], F['shared memory'], 0, 0)",
    "semaphores outside": "call(NR['semget'], F['shared memory'], 0, 0)",
    "message queue outside": "call(NR['mq_open'], F['queue'].encode(), os.O_RDWR, 0, 0)",
    "cgroups": "leak = [n for n in os.listdir('/sys/fs/cgroup')]",
    "tracing": "leak = os.listdir('/sys/kernel/tracing')",
}

HARMLESS = {
    "over every file of the workspace": "[write(os.path.join(d, n)) for d, _, ns in os.walk('.') if 'runs' not in d for n in ns if os.path.isfile(os.path.join(d, n))]",
    "a hook": "write('.git/hooks/pre-commit', b'#!/bin/sh\\nid\\n'); os.chmod('.git/hooks/pre-commit', 0o755)",
    "git's configuration": "write('.git/config', b'[core]\\nfsmonitor = /tmp/x\\n')",
    "git moved away": "os.rename('.git', '.git2'); os.mkdir('.git'); write('.git/config')",
    "a planted hard link": "write('planted', b'hostile through a second name')",
    "mode of a planted hard link": "os.chmod('planted', 0o777)",
    "times of a planted hard link": "os.utime('planted', (1, 1))",
    "a link out of the tree, written to": "write('link out')",
    "a linked folder, written to": "write('folder out/new')",
    "a link to a program": "write('link usr')",
    "a pipe of the tree": "fd = os.open('pipe', os.O_WRONLY | os.O_NONBLOCK); os.write(fd, b'hostile')",
    "everything removed": "[shutil.rmtree(n) if os.path.isdir(n) and not os.path.islink(n) else os.remove(n) for n in os.listdir('.') if n != 'runs']",
    "the workspace renamed": "os.rename(F['workspace'], F['workspace'] + '2')",
    "the workspace removed": "os.rmdir(F['workspace'])",
    "the workspace a link": "os.rename(F['workspace'], '/tmp/w'); os.symlink('/etc', F['workspace'])",
    "no rights for anybody": "os.chmod('.', 0)",
    "names that are hard to show": "[write(n) for n in ('new\\nline', '\\x1b[31mred', '\\u202etxt.exe', '-rf', ' ', '\\udcff')]",
    "a very deep folder": "[(os.mkdir('d'), os.chdir('d')) for _ in range(600)]",
    "sockets and pipes": "os.mkfifo('p'); s = socket.socket(1); s.bind('s'); s.listen()",
    "shared memory made": "call(NR['shmget'], 4711, 4096, 0o1666); leak = False",
    "files in /tmp": "write('/tmp/' + F['mark']); write('/dev/shm/' + F['mark'])",
    "files in /run": "write('/run/' + F['mark'])",
    "a stopped process outside continued": "os.kill(-1, signal.SIGCONT)",
    "a link planted in the folder for writing": "os.symlink(F['canary'], F['writes'] + '/planted')",
}

CATEGORIES = {
    "reads": READS,
    "writes": WRITES,
    "proc": PROC,
    "namespaces": NAMESPACES,
    "sockets": SOCKETS,
    "descriptors": DESCRIPTORS,
    "processes": PROCESSES,
    "environment": ENVIRONMENT,
    "kernel": KERNEL,
    "harmless": HARMLESS,
}
