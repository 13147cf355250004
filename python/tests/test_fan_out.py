"""Files that name very many others: none of these is opened or fetched."""

import pathlib
import subprocess
import sys

import pytest

import espalier

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/support"))
import fan_out  # noqa: E402

SAYS = r"the checkpoint has bytes in (65534|20000) further files and the limit files allows 1024"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    # By the system's Python, which has what the corpus is made with.
    command = ["/usr/bin/python3", fan_out.__file__, tmp_path_factory.mktemp("many")]
    written = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [pathlib.Path(line) for line in written.splitlines()]


@pytest.mark.parametrize("number", range(3))
def test_more_files_than_the_limit(files, number):
    path = files[number]
    with fan_out.CountingServer(path.parent) as server:
        for where in (path, server.url(path.name)):
            for read in (espalier.open, espalier.load):
                with pytest.raises(espalier.EspalierError, match=SAYS) as caught:
                    read(where)
                assert caught.value.code == "limit_exceeded"
        assert set(server.asked) == {"/" + path.name}
