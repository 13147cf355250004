"""Keeps each corpus of small test files as one archive in the repository. Usage: see scripts/corpora.

The files lie in a folder beside the archive, which git ignores. Call unpack() before you need them, or run scripts/corpora. It does
nothing if the folder was made of that archive.
"""
import argparse
import hashlib
import io
import lzma
import os
import pathlib
import shutil
import sys
import tarfile
import tempfile

try:
    import fcntl
except ImportError:  # On Windows, two processes that unpack at once are the user's business.
    fcntl = None

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The folder of each corpus. Its archive has the same name and ends in .tar.xz.
FOLDERS = {
    "corrupt": ROOT / "tests/corrupt/files",
    "fuzz": ROOT / "fuzz/corpus",
}


def archive_of(name):
    folder = FOLDERS[name]
    return folder.with_name(folder.name + ".tar.xz")


def files_of(folder):
    """The files of a corpus by path, sorted."""
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return {path: (folder / path).read_bytes() for path in paths}


def packed(files):
    """The bytes of an archive. They depend on the names and contents alone, and on the version of xz."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, content in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return lzma.compress(tar.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def contents(archive):
    """The files in an archive, by path."""
    with tarfile.open(archive, "r:xz") as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}


def stamp_of(name):
    """The file with the hash of the archive that the folder was made of."""
    return FOLDERS[name].with_name(FOLDERS[name].name + ".unpacked")


def hash_of(name):
    return hashlib.sha256(archive_of(name).read_bytes()).hexdigest()


def write_files(folder, files):
    for path, content in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def unpack(name):
    """Makes the folder of a corpus that of its archive. Several processes may do so at once. Returns the folder.

    Ends the program if files would be lost: a change in the folder that was not packed.
    """
    folder, wanted = FOLDERS[name], hash_of(name)
    with stamp_of(name).open("a+") as stamp:
        if fcntl:
            fcntl.flock(stamp, fcntl.LOCK_EX)
        stamp.seek(0)
        if folder.is_dir() and stamp.read() == wanted:
            return folder
        since = os.fstat(stamp.fileno()).st_mtime
        changed = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_mtime > since]
        if changed:
            sys.exit(f"scripts/corpora: {changed[0]} was changed and is in no archive; pack it with scripts/corpora --pack "
                     f"{name}, or remove {folder}")
        fresh = pathlib.Path(tempfile.mkdtemp(prefix=folder.name + ".", dir=folder.parent))
        fresh.chmod(0o755)
        write_files(fresh, contents(archive_of(name)))
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
        stamp.truncate(0)
        stamp.write(wanted)
    return folder


def unpack_all():
    for name in FOLDERS:
        unpack(name)


def pack(name):
    """Makes the archive of a corpus that of its folder. Returns the number of files."""
    folder, archive = FOLDERS[name], archive_of(name)
    files = files_of(folder)
    if not files:
        sys.exit(f"scripts/corpora: no files in {folder}")
    if not archive.exists() or contents(archive) != files:
        archive.write_bytes(packed(files))
    stamp_of(name).write_text(hash_of(name))
    return len(files)


def replace(name, files):
    """Makes a corpus of these files, by path: its folder and its archive. Returns the number of files."""
    shutil.rmtree(FOLDERS[name], ignore_errors=True)
    write_files(FOLDERS[name], files)
    return pack(name)


def main():
    parser = argparse.ArgumentParser(prog="scripts/corpora", description="Unpacks the corpora of test files, and packs them.")
    parser.add_argument("names", nargs="*", metavar="CORPUS", help=f"one of: {', '.join(FOLDERS)}; all by default")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--pack", action="store_true", help="make the archive of the folder, after a change in it")
    action.add_argument("--list", action="store_true", help="print the size and the path of each file in the archive")
    options = parser.parse_args()
    for name in options.names:
        if name not in FOLDERS:
            parser.error(f"no corpus {name!r}; there are: {', '.join(FOLDERS)}")
    for name in options.names or FOLDERS:
        if options.pack:
            print(f"{archive_of(name).relative_to(ROOT)}: {pack(name)} files")
        elif options.list:
            for path, content in contents(archive_of(name)).items():
                print(f"{len(content):8} {path}")
        else:
            unpack(name)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
