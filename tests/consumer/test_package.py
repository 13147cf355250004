"""Makes the packages of a build, installs the Debian ones into an empty root folder, and uses what they install.

Usage: test_package.py CPACK BUILD SOURCE WORK CXX CC. The dependencies of the packages are looked for among those of this
machine. The last line is "N passed, N failed".
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from report import check, end_of_checks

CPACK = sys.argv[1]
BUILD, SOURCE, WORK = (pathlib.Path(argument).resolve() for argument in sys.argv[2:5])
CXX, CC = sys.argv[5:7]
CONSUMER = SOURCE / "tests/consumer"


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        print(f"failed with {done.returncode}: {command}\n{done.stdout}{done.stderr}")
        sys.exit(1)
    return done.stdout


def field(package, name):
    return run("dpkg-deb", "--field", package, name).strip()


def only(paths):
    paths = list(paths)
    check(len(paths) == 1, f"not one: {paths}")
    return paths[0]


def check_fields(runtime, development, tools):
    version = field(runtime, "Version")
    check(f"libespalier0.1 (= {version})" in field(development, "Depends"), field(development, "Depends"))
    check("libc6" in field(runtime, "Depends") and "libzstd1" in field(runtime, "Depends"), field(runtime, "Depends"))
    check("libevent" in field(tools, "Depends") and "-dev" not in field(tools, "Depends"), field(tools, "Depends"))
    check("libespalier0.1" in run("dpkg-deb", "--info", runtime, "shlibs"), "the library's package has no shlibs")
    for package in (runtime, development, tools):
        check(field(package, "Maintainer").endswith(".invalid>"), field(package, "Maintainer"))
        check(f"./usr/share/doc/{field(package, 'Package')}/copyright" in run("dpkg-deb", "--contents", package),
              f"{package.name} has no copyright")


def install(root, packages):
    """With dpkg, which checks dependencies: against a list of this machine's packages."""
    database = root / "var/lib/dpkg"
    for folder in ("info", "updates", "triggers"):
        (database / folder).mkdir(parents=True)
    host = pathlib.Path("/var/lib/dpkg/status").read_text().split("\n\n")
    # Without those under test, which may be installed here.
    names = {f"Package: {field(package, 'Package')}" for package in packages}
    (database / "status").write_text("\n\n".join(entry for entry in host if entry.split("\n")[0] not in names))
    # The root has no shell, so the packages' scripts run outside. This machine's cache of libraries stays as it is.
    commands = WORK / "commands"
    commands.mkdir()
    (commands / "ldconfig").write_text('#!/bin/sh\n: > "$(dirname "$0")/ran"\n')
    (commands / "ldconfig").chmod(0o755)
    # As root, or as one who seems to be: files belong to root.
    become = [] if os.geteuid() == 0 else ["fakeroot"]
    run(*become, "dpkg", f"--root={root}", "--log=/dev/null", "--force-not-root", "--force-script-chrootless", "--install",
        *packages, env={**os.environ, "PATH": f"{commands}:{os.environ['PATH']}:/usr/sbin:/sbin"})
    check((commands / "ran").exists(), "installing the library does not run ldconfig")


def see(program, page):
    """The installed program serves the installed page."""
    environment = {name: value for name, value in os.environ.items() if name != "ESPALIER_VIEWER"}
    command = [program, "view", WORK / "digits.espalier", "--no-browser", "--json", "--idle-timeout", "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as server:
        line = server.stdout.readline()
        if line:
            with urllib.request.urlopen(json.loads(line)["url"].split("#")[0] + "index.html") as answer:
                check(answer.read() == (page / "index.html").read_bytes(), "another page is served")
            server.terminate()
        check(bool(line) and server.wait(30) == 0, f"espalier view fails: {server.stderr.read()}")


def refuses_without_page():
    """A package without the page is none that anyone wants by accident."""
    clone = WORK / "no-page"
    done = subprocess.run([CPACK, "--config", BUILD / "CPackConfig.cmake", "-G", "TGZ", "-B", clone, "-D",
                           "CPACK_ESPALIER_PAGE_SOURCES=false"], capture_output=True, text=True, cwd=BUILD)
    check(done.returncode != 0 and "is of other sources" in done.stdout + done.stderr, done.stdout + done.stderr)


def use(root):
    sample = SOURCE / "tests/data/digits/digits.safetensors"
    program = root / "usr/bin/espalier"
    run(program, "convert", sample, WORK / "digits.espalier", "--nest")
    check("57 tensors" in run(program, "verify", WORK / "digits.espalier"), "the installed program does not verify")
    for name in ("man/man1/espalier.1", "bash-completion/completions/espalier", "zsh/vendor-completions/_espalier",
                 "fish/vendor_completions.d/espalier.fish", "doc/espalier/README.md", "espalier/viewer/index.html",
                 "espalier/viewer/NOTICES.txt"):
        check((root / "usr/share" / name).is_file(), f"share/{name} is not in the package")
    see(program, root / "usr/share/espalier/viewer")
    pc = only(root.glob("usr/lib/**/espalier.pc"))
    environment = {**os.environ, "PKG_CONFIG_PATH": str(pc.parent), "LD_LIBRARY_PATH": str(pc.parent.parent)}

    def program(package, compiler, source, *arguments):
        flags = run("pkg-config", "--cflags", "--libs", package, env=environment).split()
        run(*compiler, CONSUMER / source, "-o", WORK / "program", *flags)
        check(run(WORK / "program", *arguments, env=environment).endswith("ok\n"), f"{source} with {package} fails")

    program("espalier", [CXX, "-std=c++20"], "main.cpp", WORK / "state.espalier")
    program("espalier-core", [CXX, "-std=c++20"], "core.cpp", WORK, "own")
    program("espalier-c", [CC], "main.c", WORK / "state.espalier")


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    made = WORK / "made"
    run(CPACK, "--config", BUILD / "CPackConfig.cmake", "-B", made, cwd=BUILD)
    packages = [only(made.glob(f"{name}_*.deb")) for name in ("libespalier0.1", "libespalier-dev", "espalier")]
    check_fields(*packages)
    refuses_without_page()
    install(WORK / "root", packages)
    use(WORK / "root")

    run("tar", "-xf", only(made.glob("*.tar.gz")), "-C", WORK)
    program = only(WORK.glob("espalier-*/bin/espalier"))
    check(run(program, "--version").startswith("espalier "), "the program of the archive fails")
    return end_of_checks()


if __name__ == "__main__":
    sys.exit(main())
