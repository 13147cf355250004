"""Disturbs the program itself: kills it at every system call of a save, makes each call fail, fills the disk, and
lets writers and readers meet.

Usage: test_processes.py PART, where PART is one of the functions of PARTS.
Environment: ESPALIER, the program; ESPALIER_IS_SANITIZED, anything if a sanitizer is built into it; EVERY, for every Nth
of the cases alone, which are thousands.
Last line: "N passed, N failed". Exit code 77 if this machine cannot run the part.
"""
import collections
import concurrent.futures
import mmap
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from report import check, end_of_checks

ESPALIER = os.environ["ESPALIER"]
DATA = pathlib.Path(__file__).resolve().parent.parent
# The saved file, and the old file: `convert` reproduces its source's bytes.
NEW = DATA / "golden" / "chunks.espalier"
OLD = DATA / "golden" / "every_kind.espalier"
SAFETENSORS = DATA / "data" / "digits" / "digits.safetensors"
SKIPPED = 77
EVERY = int(os.environ.get("EVERY", "1"))
IO_ERROR = 4
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
ERRORS = ("ENOSPC", "EDQUOT", "EFBIG", "EIO", "EINTR", "EMFILE", "EROFS", "EACCES")
# The system calls of a save from its temporary file on.
FILE_CALLS = {"openat", "fchmod", "ftruncate", "pwrite64", "fsync", "close", "renameat", "renameat2", "unlinkat"}
CALLED_AGAIN = {"openat", "fchmod", "ftruncate", "pwrite64"}  # after EINTR
# A sanitizer's runtime makes calls of its own, dozens of pipes among them, and ends the program where they fail.
IS_SANITIZED = bool(os.environ.get("ESPALIER_IS_SANITIZED"))
# A leak checker cannot work in a program that is traced.
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}

# Where is_named, a temporary file has its name. Where is_tried, the save can go on in another way.
Call = collections.namedtuple("Call", "name number is_saving is_placing is_placed is_named is_tried")


class Skip(Exception):
    pass


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=ENVIRONMENT, **options)


def convert(source, target, *options, **keywords):
    return run(ESPALIER, "convert", "--threads", "1", source, target, *options, **keywords)


def temporaries(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith(".espalier-")]


class Place:
    """A folder of its own with a target in it, or without."""

    def __init__(self, has_old):
        self.has_old = has_old
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="espalier-test-"))
        self.target = self.folder / "target.espalier"
        if has_old:
            shutil.copyfile(OLD, self.target)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def is_old(self):
        return self.target.read_bytes() == OLD.read_bytes() if self.has_old else not self.target.exists()

    def is_new(self):
        return self.target.exists() and self.target.read_bytes() == NEW.read_bytes()

    def options(self):
        return ["--force"] if self.has_old else []

    def under_strace(self, *options, **keywords):
        """Converts with strace doing something to it. strace ends as the program does."""
        return run("strace", "-f", "-qq", "-o", "/dev/null", *options, ESPALIER, "convert", "--threads", "1", NEW,
                   self.target, *self.options(), **keywords)


def trace(folder, *command):
    """Every system call of a command from the first one about the folder on, but for hints: its name, which of that name
    it is, and the line about it."""
    if not shutil.which("strace"):
        raise Skip("strace is not installed")
    with tempfile.NamedTemporaryFile("r") as log:
        done = run("strace", "-f", "-qq", "-o", log.name, ESPALIER, *command)
        lines = log.read().splitlines()
        if not lines and "ptrace" in done.stderr:
            raise Skip(f"strace may not trace here: {done.stderr.strip()}")
        check(done.returncode == 0, f"undisturbed, {command[0]} fails: {done.stderr}")
    numbers = collections.Counter()
    calls = []
    is_begun = False
    for line in lines:
        match = re.match(r"\d+ +(\w+)\(", line)
        if not match:
            continue
        name = match[1]
        numbers[name] += 1
        is_begun = is_begun or (folder.name in line and name != "execve")
        # How often bytes are fetched ahead depends on what the page cache has by then. brk() cannot fail with an error: the
        # kernel answers with the old end, and the C library takes an error's number for a new one.
        if is_begun and name not in ("madvise", "brk"):
            calls.append((name, numbers[name], line))
    return calls


def calls_of_a_save(has_old):
    """The system calls of a save, and how far it is at each of them."""
    with Place(has_old) as place:
        traced = trace(place.folder, "convert", "--threads", "1", NEW, place.target, *place.options())
        check(place.is_new(), "an undisturbed save")
    calls = []
    is_saving = is_placed = is_named = False
    for name, number, line in traced:
        is_nameless = "O_TMPFILE" in line
        is_saving = is_saving or is_nameless or (name == "openat" and ".espalier-" in line)
        is_named = is_named or (name in ("openat", "linkat") and ".espalier-" in line)
        # Renaming to a temporary name only finds out whether that works.
        is_placing = name in ("renameat", "renameat2") and place.target.name in line
        calls.append(Call(name, number, is_saving, is_placing, is_placed, is_named, is_nameless or name == "unlinkat"))
        is_placed = is_placed or is_placing
        is_named = is_named and not is_placing and name != "unlinkat"
    check(not is_named, "an undisturbed save leaves a name")
    if has_nameless_files():
        check(not any(call.is_named for call in calls if call.name == "pwrite64"), "a file has a name while it is written")
    check(is_placed and {call.name for call in calls} >= FILE_CALLS - {"unlinkat", "fchmod", "renameat", "renameat2"},
          f"the calls of a save: {sorted({call.name for call in calls})}")
    return calls


def has_nameless_files():
    """Whether files without a name can be made where the tests run."""
    try:
        os.close(os.open(tempfile.gettempdir(), os.O_TMPFILE | os.O_WRONLY))
        return True
    except (AttributeError, OSError):
        return False


def in_parallel(function, cases, what):
    cases = list(cases)[::EVERY]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(lambda case: function(*case), cases):
            pass
    print(f"{len(cases)} {what}")


def cases_of(calls_wanted, *others):
    for has_old in (False, True):
        for call in calls_of_a_save(has_old):
            if calls_wanted is None or call.name in calls_wanted:
                yield (has_old, call, *others)


def kill():
    """kill -9 at every system call: the target is the old or the new file, the next save works, and a temporary file stays
    only if it had a name just then."""

    def once(has_old, call):
        with Place(has_old) as place:
            what = f"killed at {call.name} number {call.number}, {'old' if has_old else 'no'} file"
            done = place.under_strace("-e", f"trace={call.name}", "-e",
                                      f"inject={call.name}:signal=KILL:when={call.number}")
            check(done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), f"{what}: {done.returncode}")
            if call.is_placing:
                check(place.is_old() or place.is_new(), what)
            else:
                check(place.is_new() if call.is_placed else place.is_old(), what)
            check(call.is_named or not temporaries(place.folder), f"{what}: a temporary file is left")
            again = convert(NEW, place.target, "--force")
            check(again.returncode == 0 and place.is_new(), f"{what}: the save after it")

    in_parallel(once, cases_of(None), "kill points")


def has_another_way(call, has_old):
    """Whether a save goes on where this call fails: renaming that spares other files is only tried out, and a new file
    is hidden from others only where that is possible."""
    return call.is_tried or (call.name == "renameat2" and not call.is_placing) or (call.name == "fchmod" and call.number == 1 and not has_old)


def errors():
    """Every call of a save fails: an error and the old file, or no error and the new one; nothing is left behind."""

    def once(has_old, call, error, lasting):
        with Place(has_old) as place:
            when = f"{call.number}+" if lasting else call.number
            what = f"{error} from {call.name} number {when}, {'old' if has_old else 'no'} file"
            done = place.under_strace("-e", f"trace={call.name}", "-e",
                                      f"inject={call.name}:error={error}:when={when}")
            if done.returncode == 0 or "(code durability_unknown" in done.stderr:
                check(place.is_new(), f"{what}: {done.stderr}")
            else:
                check(place.is_old() and "(code io_error" in done.stderr, f"{what}: {done.stderr}")
            check(done.returncode in (0, IO_ERROR), f"{what}: {done.returncode}")
            if call.name != "unlinkat" or not lasting:
                check(not temporaries(place.folder), f"{what}: a temporary file is left")
            if error == "EINTR" and call.name in CALLED_AGAIN:
                check(done.returncode == 0, f"{what}: {done.stderr}")
            if error == "EIO" and not call.is_placed and call.name != "close" and not has_another_way(call, has_old):
                check(done.returncode == IO_ERROR, f"{what} went by unnoticed")

    def other(has_old, call, error):
        """A call that does not belong to the save: for memory, for the terminal, or for a name before the save begins."""
        with Place(has_old) as place:
            what = f"{error} from {call.name} number {call.number}, {'old' if has_old else 'no'} file"
            done = place.under_strace("-e", f"trace={call.name}", "-e",
                                      f"inject={call.name}:error={error}:when={call.number}")
            check(done.returncode in (0, IO_ERROR), f"{what}: {done.returncode}, {done.stderr}")
            check(place.is_new() if done.returncode == 0 or call.is_placed else place.is_old(), what)
            check(not temporaries(place.folder), f"{what}: a temporary file is left")

    chosen = ("EIO", "EINTR") if IS_SANITIZED else ERRORS
    cases = [(*case, error, lasting) for case in cases_of(FILE_CALLS) for error in chosen for lasting in (False, True)
             if not lasting or error in ("ENOSPC", "EIO")]
    in_parallel(once, cases, "failing calls on files")
    cases = [(*case, error) for case in cases_of(None) for error in ERRORS
             if case[1].name not in FILE_CALLS | {"exit_group"}]
    if not IS_SANITIZED:
        in_parallel(other, cases, "other failing calls")


def signals():
    """A signal at every system call: the save is given up and cleaned up, or has happened."""

    def once(has_old, call, number):
        with Place(has_old) as place:
            what = f"{number.name} at {call.name} number {call.number}, {'old' if has_old else 'no'} file"
            done = place.under_strace("-e", f"trace={call.name}", "-e",
                                      f"inject={call.name}:signal={number.name}:when={call.number}")
            check(not temporaries(place.folder), f"{what}: a temporary file is left")
            if place.is_new():
                # After it the program ends, and the signal has its default effect.
                check(done.returncode in (0, -number, 128 + number), f"{what}: {done.returncode}")
                check(call.is_placed or call.is_placing, what)
            else:
                check(place.is_old() and not call.is_placed, what)
                # Before the save has begun, the signal has its default effect.
                codes = (128 + number,) if call.is_saving else (128 + number, -number)
                check(done.returncode in codes and not done.stderr and not done.stdout,
                      f"{what}: {done.returncode}, {done.stderr}")

    def ignored(has_old, call):
        with Place(has_old) as place:
            done = place.under_strace("-e", f"trace={call.name}", "-e",
                                      f"inject={call.name}:signal=SIGHUP:when={call.number}",
                                      preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
            check(done.returncode == 0 and place.is_new(), f"an ignored SIGHUP at {call.name}: {done.returncode}")

    cases = list(cases_of(None))
    in_parallel(once, [(*case, number) for case in cases for number in SIGNALS], "signals")
    in_parallel(ignored, [case for case in cases if case[1].name in ("pwrite64", "fsync")], "ignored signals")


def limits():
    """A file that may not grow: the write that is cut short is an error of the next one."""
    for limit in (0, 4096, 1_000_000, len(NEW.read_bytes()) - 1):
        def lower():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        for has_old in (False, True):
            with Place(has_old) as place:
                done = convert(NEW, place.target, *place.options(), preexec_fn=lower)
                check(done.returncode == IO_ERROR and place.is_old(), f"limit {limit}: {done.stderr}")
                check(not temporaries(place.folder), f"limit {limit}: a temporary file is left")
            # The same if making the file long enough does not find it out, as on file systems with holes.
            if not shutil.which("strace"):
                raise Skip("strace is not installed")
            with Place(has_old) as place:
                done = place.under_strace("-e", "trace=ftruncate", "-e", "inject=ftruncate:retval=0",
                                          preexec_fn=lower)
                check(done.returncode == IO_ERROR and "write the file" in done.stderr and place.is_old(),
                      f"limit {limit}, short write: {done.stderr}")
                check(not temporaries(place.folder), f"limit {limit}, short write: a temporary file is left")


def full_disk():
    """A file system of 64 KiB, in a mount namespace of its own."""
    for unshare in (["unshare", "-m"], ["unshare", "-r", "-m"]):
        with tempfile.TemporaryDirectory(prefix="espalier-test-") as folder:
            inside = run(*unshare, sys.executable, __file__, "in_full_disk", folder)
            if inside.returncode == SKIPPED:
                continue
            print(inside.stdout, inside.stderr, sep="", end="")
            check(inside.returncode == 0, "the part in the namespace")
            return
    raise Skip("file systems can be mounted neither by this user nor in a namespace of his")


def in_full_disk():
    folder = pathlib.Path(sys.argv[2])
    mounted = run("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder)
    if mounted.returncode != 0:
        raise Skip(mounted.stderr.strip())
    target = folder / "target.espalier"
    shutil.copyfile(OLD, target)
    for source in (NEW, SAFETENSORS):
        for options in ((), ("--no-sync",), ("--threads", "2")):
            done = run(ESPALIER, "convert", source, target, "--force", *options)
            check(done.returncode == IO_ERROR and "No space left" in done.stderr, f"a full disk: {done.stderr}")
            check(target.read_bytes() == OLD.read_bytes(), "a full disk spoils the old file")
            check(not temporaries(folder), "a full disk: a temporary file is left")
    # A save that fits succeeds, and failed saves have freed their space.
    other = DATA / "golden" / "every_dtype.espalier"
    done = convert(other, target, "--force")
    check(done.returncode == 0 and target.read_bytes() == other.read_bytes(), f"what fits: {done.stderr}")


def start(*command):
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT)


def meetings():
    """Writers of one target, readers meanwhile, and a file that is saved over itself."""
    # Several writers: one whole file wins.
    for _ in range(5):
        with Place(True) as place:
            writers = [start(ESPALIER, "convert", source, place.target, "--force", "--no-sync")
                       for source in (NEW, OLD, NEW, OLD)]
            # A reader sees one of the files, never part of one.
            while any(writer.poll() is None for writer in writers):
                read = run(ESPALIER, "verify", place.target)
                check(read.returncode == 0, f"a reader meanwhile: {read.stdout} {read.stderr}")
            for writer in writers:
                check(writer.wait() == 0, f"a writer of several: {writer.stderr.read()}")
                writer.stderr.close()
            check(place.is_new() or place.is_old(), "several writers: neither file")
            check(not temporaries(place.folder), "several writers: a temporary file is left")
    # If several saves may not replace, one wins.
    for _ in range(5):
        with Place(False) as place:
            writers = [start(ESPALIER, "convert", NEW, place.target, "--no-sync") for _ in range(4)]
            codes = sorted(writer.wait() for writer in writers)
            for writer in writers:
                writer.stderr.close()
            check(codes == [0, 2, 2, 2], f"several that may not replace: {codes}")
            check(place.is_new() and not temporaries(place.folder), "several that may not replace: the file")
    # A reader that has the file open keeps the old one.
    with Place(True) as place, open(place.target, "rb") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            before = os.fstat(file.fileno()).st_ino
            done = convert(NEW, place.target, "--force")
            check(done.returncode == 0 and place.is_new(), f"a save under a reader: {done.stderr}")
            check(mapped[:] == OLD.read_bytes(), "a reader's mapping has changed")
            check(os.stat(place.target).st_ino != before, "the file was written in place")
    # Over the file that is mapped and read.
    for source in (NEW, SAFETENSORS):
        with Place(False) as place:
            target = place.folder / f"self{source.suffix}"
            shutil.copyfile(source, target)
            for options in ((), ("--no-mmap",), ("--threads", "2")):
                done = run(ESPALIER, "convert", target, target, "--force", *options)
                check(done.returncode == 0, f"over itself: {done.stderr}")
                check(target.read_bytes() == source.read_bytes(), f"over itself: {source.name} has changed")
            check(len(list(place.folder.iterdir())) == 1, "over itself: something is left")


def in_flight():
    """A signal as it comes: as soon as there is a temporary file."""
    for number in SIGNALS:
        for _ in range(5):
            with Place(True) as place:
                program = start(ESPALIER, "convert", NEW, place.target, "--force")
                while program.poll() is None and not temporaries(place.folder):
                    time.sleep(0)
                program.send_signal(number)
                code = program.wait()
                program.stderr.close()
                check(code in (0, 128 + number, -number), f"{number.name}: {code}")
                check(place.is_new() if code == 0 else place.is_old() or place.is_new(), f"{number.name}: the file")
                check(not temporaries(place.folder), f"{number.name}: a temporary file is left")


def first_call_after_opening(call):
    """The number of the first such call after the source is opened: a sanitizer's runtime makes some before."""
    with tempfile.NamedTemporaryFile("r") as log:
        run("strace", "-f", "-qq", "-o", log.name, "-e", f"trace=openat,{call}", ESPALIER, "verify", NEW)
        before = log.read().partition(f'"{NEW}"')[0]
    return len(re.findall(rf"(?m)^\d+ +{call}\(", before)) + 1


def cut_files():
    """The source is cut while it is mapped: the program stops at a system call for that."""
    calls_of_a_save(False)  # skips if strace cannot trace here
    for command, call, number, options in (("verify", "madvise", first_call_after_opening("madvise"), ()),  # the index is still to be read
                                           ("convert", "ftruncate", 1, ()), ("convert", "pwrite64", 1, ("--threads", "1")),
                                           ("extract", "ftruncate", 1, ("--threads", "2"))):
        with Place(False) as place, tempfile.NamedTemporaryFile("r") as log:
            source = place.folder / "source.espalier"
            shutil.copyfile(NEW, source)
            target = () if command == "verify" else ("-o", place.target)
            tracer = start("strace", "-f", "-qq", "-o", log.name, "-e", f"trace={call}", "-e",
                           f"inject={call}:signal=SIGSTOP:when={number}", ESPALIER, command, source, *target, *options)
            shown = ""
            while "stopped by SIGSTOP" not in shown and tracer.poll() is None:
                time.sleep(0)
                shown = pathlib.Path(log.name).read_text()
            stopped = re.search(r"(?m)^(\d+) .*stopped by SIGSTOP", shown)
            check(stopped, f"{command} did not stop at {call}: {shown}")
            os.truncate(source, 0)
            if stopped:
                os.kill(int(stopped[1]), signal.SIGCONT)
            message = tracer.communicate(timeout=120)[1].decode()
            what = f"{command} of a file that is cut at {call}"
            check(tracer.returncode == 4, f"{what}: {tracer.returncode} {message}")
            check(message == f"espalier: {source}: the file changed while it was read; try --no-mmap, which also tells "
                             "whether the disk fails (code file_changed)\n", f"{what}: {message}")
            check([path.name for path in place.folder.iterdir()] == [source.name], f"{what}: something is left")


def safetensors_of(numbers):
    header = b'{"w":{"dtype":"U16","shape":[%d],"data_offsets":[0,%d]}}' % (len(numbers) // 2, len(numbers))
    return struct.pack("<Q", len(header)) + header + numbers


def make_chain(folder):
    """Steps 0 to 2 of which each needs the one before, the same whole, and one that nobody needs: all two hours old."""
    draw = random.Random(1)
    weights = bytearray(draw.randbytes(300_000))
    for step in range(3):
        (folder / f"{step}.safetensors").write_bytes(safetensors_of(weights))
        for position in draw.sample(range(0, len(weights), 2), 1000):
            weights[position] ^= 1
        source = folder / f"{step}.safetensors"
        against = ("--base", folder / f"{step - 1}.espalier") if step else ()
        for target, options in ((f"{step}.espalier", against), (f"whole-{step}.espalier", ())):
            done = convert(source, folder / target, *options)
            check(done.returncode == 0, f"making {target}: {done.stderr}")
    check((folder / "2.espalier").stat().st_size < 20_000, "steps 1 and 2 are no patches")
    for path in folder.iterdir():
        os.utime(path, (time.time() - 7200,) * 2)


def chains():
    """kill -9 at every system call of commands on checkpoints that need each other: whatever was whole stays so, and the
    command can be repeated."""
    with tempfile.TemporaryDirectory(prefix="espalier-test-") as name:
        origin = pathlib.Path(name)
        make_chain(origin)
        whole = (origin / "whole-2.espalier").read_bytes()

        def is_step_2(path):
            with tempfile.TemporaryDirectory(prefix="espalier-test-") as other:
                flat = pathlib.Path(other) / "flat.espalier"
                done = run(ESPALIER, "flatten", path, flat)
                return done.returncode == 0 and flat.read_bytes() == whole

        def one_or_the_other(folder, target, before):
            there = target.read_bytes() if target.exists() else None
            return there == before or is_step_2(target)

        # What is run in a copy of the folder, what must hold whenever it is killed, and once it was repeated.
        cases = {
            "apply": (lambda folder: ("apply", folder / "2.espalier", folder / "whole-1.espalier", "--threads", "1"),
                      lambda folder: one_or_the_other(folder, folder / "whole-1.espalier", (origin / "whole-1.espalier").read_bytes()),
                      lambda folder: (folder / "whole-1.espalier").read_bytes() == whole),
            "delta": (lambda folder: ("delta", folder / "1.espalier", folder / "2.safetensors", "-o", folder / "out.espalier", "--force", "--threads", "1"),
                      lambda folder: one_or_the_other(folder, folder / "out.espalier", None),
                      lambda folder: is_step_2(folder / "out.espalier")),
            "fold": (lambda folder: ("fold", folder / "2.espalier", folder / "out.espalier", "--force", "--threads", "1"),
                     lambda folder: one_or_the_other(folder, folder / "out.espalier", None),
                     lambda folder: is_step_2(folder / "out.espalier")),
            "prune": (lambda folder: ("prune", folder, "--keep", "2.espalier", "--delete"),
                      lambda folder: True,
                      lambda folder: {path.name for path in folder.glob("*.espalier")} == {f"{step}.espalier" for step in range(3)}),
        }  # fmt: skip

        def once(command, number):
            arguments, holds, is_done = cases[command]
            what = f"{command} killed at {number[0]} number {number[1]}"
            with tempfile.TemporaryDirectory(prefix="espalier-test-") as other:
                folder = pathlib.Path(other) / "run"
                shutil.copytree(origin, folder)
                done = run("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={number[0]}", "-e",
                           f"inject={number[0]}:signal=KILL:when={number[1]}", ESPALIER, *arguments(folder))
                check(done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), f"{what}: {done.returncode}")
                check(holds(folder), f"{what}: neither the old file nor the new one")
                check(is_step_2(folder / "2.espalier"), f"{what}: step 2 is lost")
                again = run(ESPALIER, *arguments(folder))
                check(again.returncode == 0 and is_done(folder), f"{what}: again, {again.stderr}")

        runs = []
        for command, (arguments, _, is_done) in cases.items():
            with tempfile.TemporaryDirectory(prefix="espalier-test-") as other:
                folder = pathlib.Path(other) / "run-to-trace"
                shutil.copytree(origin, folder)
                calls = [(call, number) for call, number, _ in trace(folder, *arguments(folder))]
                check(is_done(folder), f"an undisturbed {command}")
            runs += [(command, call) for call in calls]
        in_parallel(once, runs, "kill points")


ALICE, BOB, CAROL = 61001, 61002, 61003
FINANCE, USERS = 62001, 62002


def acl(named_user, mask):
    """A POSIX ACL as the kernel stores it: rw- for the owner, r-- for the group, and for one user more."""
    unnamed = 0xFFFFFFFF
    entries = ((1, 6, unnamed), (2, 4, named_user), (4, 4, unnamed), (16, mask, unnamed), (32, 0, unnamed))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


class Shared:
    """A folder that every user may write to, with a file of Alice's and her group's in it."""

    ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"

    def __init__(self, folder, mode, acl_of_file=None, acl_of_folder=None):
        self.folder = folder
        self.folder.mkdir()
        self.folder.chmod(0o777)
        self.file = folder / "file.espalier"
        shutil.copyfile(OLD, self.file)
        os.chown(self.file, ALICE, FINANCE)
        self.file.chmod(mode)
        if acl_of_file:
            os.setxattr(self.file, self.ACCESS, acl_of_file)
        if acl_of_folder:
            os.setxattr(folder, self.DEFAULT, acl_of_folder)

    def is_replaced_by(self, program, *groups, user, group=USERS):
        done = run("setpriv", f"--reuid={user}", f"--regid={group}",
                   f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups",
                   program, "convert", NEW.name, self.file, "--force", cwd=program.parent)
        return done.returncode == 0 and self.file.read_bytes() == NEW.read_bytes()

    def rights(self):
        """Owner, group, mode and ACL."""
        status = self.file.stat()
        has_acl = self.ACCESS in os.listxattr(self.file)
        return (status.st_uid, status.st_gid, oct(status.st_mode & 0o7777),
                os.getxattr(self.file, self.ACCESS) if has_acl else None)


def other_users():
    """A replaced file gives other users no new rights, and their links do not lead a save astray."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skip("only root can be several users, with setpriv")
    with tempfile.TemporaryDirectory(prefix="espalier-test-") as name:
        top = pathlib.Path(name)
        top.chmod(0o755)
        # Other users may not get at this one.
        program = top / "espalier"
        shutil.copy(ESPALIER, program)
        shutil.copy(NEW, top)
        (top / NEW.name).chmod(0o644)
        numbers = iter(range(100))

        def rights_after(mode, *groups, user, **acls):
            shared = Shared(top / f"shared-{next(numbers)}", mode, **acls)
            check(shared.is_replaced_by(program, *groups, user=user), f"user {user} may replace a file of {oct(mode)}")
            return shared.rights()

        def expect(found, *wanted):
            check(found == wanted, f"{found} is not {wanted}")

        # A member of the group keeps it, and root keeps everything.
        expect(rights_after(0o640, FINANCE, user=ALICE), ALICE, FINANCE, "0o640", None)
        expect(rights_after(0o660, FINANCE, user=BOB), BOB, FINANCE, "0o660", None)
        expect(rights_after(0o640, user=0), ALICE, FINANCE, "0o640", None)
        # Where the group is another, it may do what both it and all others could.
        for mode, after in ((0o640, "0o600"), (0o604, "0o600"), (0o644, "0o644"), (0o664, "0o644")):
            expect(rights_after(mode, user=ALICE), ALICE, USERS, after, None)
            expect(rights_after(mode, user=BOB), BOB, USERS, after, None)
        # An ACL is kept unchanged, or there is none and only the owner has access.
        for mask in (4, 0):
            kept = acl(CAROL, mask)
            mode = oct(0o600 | mask << 3)
            expect(rights_after(0o640, FINANCE, user=ALICE, acl_of_file=kept), ALICE, FINANCE, mode, kept)
            expect(rights_after(0o640, user=0, acl_of_file=kept), ALICE, FINANCE, mode, kept)
            expect(rights_after(0o640, user=ALICE, acl_of_file=kept), ALICE, USERS, "0o600", None)
            expect(rights_after(0o640, user=BOB, acl_of_file=kept), BOB, USERS, "0o600", None)
        # A folder's default ACL is for new files.
        expect(rights_after(0o640, FINANCE, user=ALICE, acl_of_folder=acl(CAROL, 4)), ALICE, FINANCE, "0o640", None)

        # Where only Alice can replace her file, Bob knows it before anything is written.
        shared = Shared(top / "sticky", 0o666)
        shared.folder.chmod(0o1777)
        check(not shared.is_replaced_by(program, user=BOB), "Bob replaces Alice's file in a sticky folder")
        check(shared.is_replaced_by(program, user=ALICE), "Alice replaces her file in a sticky folder")

        # A link that Bob has planted where all may write, and its owner alone may remove.
        for exists in (False, True):
            victim = top / f"of-alice-{exists}"
            victim.mkdir()
            os.chown(victim, ALICE, USERS)
            if exists:
                shutil.copyfile(OLD, victim / "file.espalier")
                os.chown(victim / "file.espalier", ALICE, USERS)
            for owner, is_followed in ((BOB, False), (ALICE, True), (0, True)):
                shared = Shared(top / f"shared-{next(numbers)}", 0o640)
                shared.folder.chmod(0o1777)
                shared.file.unlink()
                shared.file.symlink_to(victim / "file.espalier")
                os.lchown(shared.file, owner, USERS)
                before = {path.name: path.read_bytes() for path in victim.iterdir()}
                check(shared.is_replaced_by(program, user=ALICE) == is_followed, f"a link of {owner}: {exists}")
                if not is_followed:
                    check(before == {path.name: path.read_bytes() for path in victim.iterdir()},
                          f"written through a link of {owner}")
                if not exists:
                    (victim / "file.espalier").unlink(missing_ok=True)


PARTS = {part.__name__: part for part in (other_users, kill, errors, signals, limits, full_disk, in_full_disk, meetings, in_flight, cut_files, chains)}


def main():
    try:
        PARTS[sys.argv[1]]()
    except Skip as reason:
        print(f"SKIPPED: {reason}")
        return SKIPPED
    return end_of_checks()


if __name__ == "__main__":
    sys.exit(main())
