"""One process saves to the folder of a Checkpointer; the others are told, and read."""

import gc
import os
import signal
import socket
import subprocess
import sys

import espalier
import pytest

HOLDER = """
import sys, espalier
ck = espalier.Checkpointer(sys.argv[1], background=False)
ck.save(1, {"by": "holder"})
print("saved", flush=True)
sys.stdin.read()
"""
SAVE = """
import sys, espalier
with espalier.Checkpointer(sys.argv[1], background=False) as ck:
    ck.save(9, {})
"""


def save_elsewhere(folder):
    """What another process says of its save; nothing if it succeeds."""
    done = subprocess.run([sys.executable, "-c", SAVE, str(folder)], capture_output=True, text=True)
    return done.stderr.splitlines()[-1] if done.returncode else ""


@pytest.mark.parametrize("background", [False, True])
def test_the_second_process_is_refused_until_the_first_is_killed(tmp_path, background):
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout.readline() == b"saved\n"
            ck = espalier.Checkpointer(tmp_path, background=background)
            # At once, and not as the error of a save in the background.
            with pytest.raises(espalier.CheckpointOSError) as refused:
                ck.save(2, {"by": "second"})
            assert refused.value.code == "folder_in_use" and isinstance(refused.value, OSError)
            assert f"process {holder.pid} on the host {socket.gethostname()} saves checkpoints to this folder" in str(refused.value)
            # Nobody is kept from reading, and nothing was written.
            assert ck.restore() == ({"by": "holder"}, 1) and ck.steps == [1] and espalier.load(ck.path(1)) == {"by": "holder"}
            assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]
        finally:
            holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert ck.save(2, {"by": "second"})
        ck.close()
        assert ck.steps == [1, 2]


def test_the_lock_is_held_from_the_first_save_to_the_end(tmp_path):
    ck = espalier.Checkpointer(tmp_path)
    assert ck.restore() == (None, 0) and ck.steps == [] and os.listdir(tmp_path) == [] and save_elsewhere(tmp_path) == ""
    ck.save(1, {})
    assert "(code folder_in_use)" in save_elsewhere(tmp_path)
    # Another one of this process saves as well.
    other = espalier.Checkpointer(tmp_path, background=False)
    other.save(2, {})
    ck.close()
    assert "(code folder_in_use)" in save_elsewhere(tmp_path)
    del other
    gc.collect()
    assert save_elsewhere(tmp_path) == ""
    # A block that ends by an error, and a save that fails, release it, too.
    with pytest.raises(KeyError), espalier.Checkpointer(tmp_path) as ck:
        ck.save(3, {})
        raise KeyError
    assert save_elsewhere(tmp_path) == ""
    ck = espalier.Checkpointer(tmp_path)
    os.mkdir(ck.path(4))
    ck.save(4, {})
    with pytest.raises(espalier.CheckpointOSError, match="not a regular file"):
        ck.close()
    assert save_elsewhere(tmp_path) == ""


# In a program of its own: other tests have started threads, with which a fork is not safe.
FORKING = """if True:
    import os, sys
    import espalier
    ck = espalier.Checkpointer(sys.argv[1], background=False)
    ck.save(1, {})
    child = os.fork()
    if child == 0:
        try:
            assert ck.restore()[1] == 1
            ck.save(2, {})
        except espalier.CheckpointOSError as error:
            os._exit(7 if f"process {os.getppid()} " in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    ck.save(2, {})
    ck.close()
    """


def test_a_forked_child_is_told_of_its_parent(tmp_path):
    subprocess.run([sys.executable, "-c", FORKING, tmp_path], check=True)
