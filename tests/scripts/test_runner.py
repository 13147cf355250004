"""The runner of scripts/test: what counts as a failure, and what still runs after one."""
import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts/ci"))

from runner import Step, junit, pytest, run, selected, summarise, tap


class Runner(unittest.TestCase):
    def run_steps(self, *steps):
        """The exit status, the output, and the folder with the steps' files."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.chdir(folder):
            status = summarise(run(steps, folder / "logs"))
        return status, printed.getvalue(), {path.name for path in folder.iterdir()}

    def test_a_failure_stops_what_needs_it_and_nothing_else(self):
        status, printed, left = self.run_steps(
            Step("a", "build", "echo reason; exit 3"), Step("a", "tests", "touch tested", needs=("a build",)),
            Step("b", "build", "touch built"), Step("b", "tests", "touch also-tested", needs=("b build",)))
        self.assertEqual(status, 1)
        self.assertEqual(printed.splitlines()[-1], "2 passed, 2 failed")
        self.assertIn("reason", printed)
        self.assertEqual(left, {"logs", "built", "also-tested"})

    def test_the_end_names_the_tests_that_failed(self):
        _, printed, _ = self.run_steps(
            Step("a", "tests", "echo '# tests 3'; echo '# fail 1'; echo 'ok 1 - x'; echo 'not ok 2 - y z'; exit 1", read=tap))
        self.assertEqual(printed.splitlines()[-2:], ["FAILED: a tests: y z", "2 passed, 1 failed"])

    def test_success_and_nothing_at_all(self):
        status, printed, _ = self.run_steps(Step("a", "build", "true"))
        self.assertEqual((status, printed.splitlines()[-1]), (0, "1 passed, 0 failed"))
        self.assertEqual(self.run_steps()[0], 1)

    def test_steps_with_a_lock_in_common_take_turns(self):
        alone = "mkdir alone; sleep 0.2; rmdir alone"
        status, printed, _ = self.run_steps(*(Step("a", str(i), alone, locks=("folder", str(i))) for i in range(3)))
        self.assertEqual(status, 0, printed)

    def test_a_stage_brings_the_steps_that_it_needs(self):
        steps = [Step("a", "build", ""), Step("a", "tests", "", needs=("a build",)),
                 Step("b", "build", "", needs=("a build",)), Step("b", "tests", "", needs=("b build",))]
        self.assertEqual([step.name for step in selected(steps, ["b"])], ["a build", "b build", "b tests"])

    def test_a_test_that_was_skipped_has_failed(self):
        tap_output = "ok 1 - x # SKIP\n# tests 5\n# pass 3\n# fail 1\n# cancelled 0\n# skipped 1\n# todo 0\n"
        cases = "".join(f'<testcase name="{status}" status="{status}"/>'
                        for status in ("run", "run", "fail", "notrun", "disabled"))
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(f"<testsuite>{cases}</testsuite>")
            file.flush()
            pytest_output = "FAILED a::b\n1 failed, 3 passed, 1 skipped in 0.01s\nmore\n"
            for report, expected in ((tap(tap_output, False), (3, 2)), (junit(file.name)("", False), (2, 3)),
                                     (pytest(pytest_output, False), (3, 2)),
                                     (pytest("3 passed, 1 warning in 0.01s\n", True), (3, 0))):
                self.assertEqual((report.passed, report.failed), expected)

    def test_no_report_is_a_failure(self):
        for report in (tap("", True), tap("# tests 2\n# fail 0\n", False), junit("/missing")("", True),
                       pytest("", True), pytest("no tests ran in 0.01s", True)):
            self.assertGreater(report.failed, 0)

    def test_an_unknown_stage_is_a_usage_error(self):
        done = subprocess.run([ROOT / "scripts/test", "nonsense"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no stage 'nonsense'", done.stderr)


if __name__ == "__main__":
    unittest.main()
