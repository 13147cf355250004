"""The runner of scripts/test: what counts as a failure, and what still runs after one."""
import contextlib
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts/ci"))

from runner import Report, Result, Step, grown, junit, processors, run, selected, summarise, tap, tap_if_any, timeline


def gone(pid):
    """Whether the process ends, which it does soon if anything ends it."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False


def reports(*texts):
    """The reports of these JUnit files together."""
    files = [tempfile.NamedTemporaryFile("w", suffix=".xml") for _ in texts]
    for file, text in zip(files, texts, strict=True):
        file.write(text)
        file.flush()
    with contextlib.ExitStack() as stack:
        for file in files:
            stack.enter_context(file)
        return junit(*(file.name for file in files), prefix="python/")("end", "failure" not in "".join(texts))


class Processors(unittest.TestCase):
    def test_a_container_has_those_that_its_quota_pays_for(self):
        all_of_them = len(os.sched_getaffinity(0))
        with tempfile.NamedTemporaryFile("w") as file:
            for text, count in (("150000 100000\n", 1), ("50000 100000\n", 1), ("9900000 100000\n", min(99, all_of_them)),
                                ("max 100000\n", all_of_them), ("", all_of_them)):
                pathlib.Path(file.name).write_text(text)
                with self.subTest(text=text):
                    self.assertEqual(processors(file.name), count)
        self.assertEqual(processors("/nowhere"), all_of_them)


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
        self.assertEqual(printed.splitlines()[-3:], ["FAILED: a tests: y z", "    that alone: scripts/test 'a tests'", "2 passed, 1 failed"])

    def test_a_failure_says_how_to_run_that_alone(self):
        _, printed, _ = self.run_steps(
            Step("a", "tests", "echo '# tests 9'; echo '# fail 1'; seq 100; echo 'not ok 2 - y z'; exit 1", read=tap,
                 again=lambda names: f"again {names[0]!r}"),
            Step("b", "tests", "seq 100; exit 1"))
        # Where it happened, and at the end.
        self.assertEqual(printed.count("FAILED: a tests: y z\n    that alone: again 'y z'\n"), 2, printed)
        self.assertEqual(printed.count("FAILED: b tests\n    that alone: scripts/test 'b tests'\n"), 2, printed)

    def test_ctrl_c_reaches_tests_that_run_in_the_background(self):
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        waits = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
        _, printed, _ = self.run_steps(Step("a", "tests", f"[ $({sys.executable} -c '{waits}') = True ]"))
        self.assertEqual(printed.splitlines()[-1], "1 passed, 0 failed")

    def test_success_and_nothing_at_all(self):
        status, printed, _ = self.run_steps(Step("a", "build", "true"))
        self.assertEqual((status, printed.splitlines()[-1]), (0, "1 passed, 0 failed"))
        self.assertEqual(self.run_steps()[0], 1)

    def test_steps_with_a_lock_in_common_take_turns(self):
        alone = "mkdir alone; sleep 0.2; rmdir alone"
        status, printed, _ = self.run_steps(*(Step("a", str(i), alone, locks=("folder", str(i))) for i in range(3)))
        self.assertEqual(status, 0, printed)

    def test_a_step_waits_for_one_that_it_comes_after_but_needs_it_not(self):
        later = Step("b", "build", "[ -e made ]", after=("a build",))
        status, printed, _ = self.run_steps(later, Step("a", "build", "sleep 0.2; touch made; exit 3"))
        self.assertEqual((status, printed.splitlines()[-1]), (1, "1 passed, 1 failed"), printed)
        status, printed, _ = self.run_steps(Step("b", "build", "true", after=("a build",)))
        self.assertEqual(status, 0, printed)
        self.assertEqual(selected([Step("a", "build", ""), later], ["b"]), [later])

    def test_a_stage_brings_the_steps_that_it_needs(self):
        steps = [Step("a", "build", ""), Step("a", "tests", "", needs=("a build",)),
                 Step("b", "build", "", needs=("a build",)), Step("b", "tests", "", needs=("b build",))]
        self.assertEqual([step.name for step in selected(steps, ["b"])], ["a build", "b build", "b tests"])

    def test_sets_stages_and_steps_are_chosen(self):
        steps = [Step("a", "build", ""), Step("a", "tests", "", needs=("a build",), sets=("land",)),
                 Step("a", "rest", "", sets=("all",)), Step("b", "tests", "", sets=("quick", "land"))]
        for wanted, names in ((["land"], ["a build", "a tests", "b tests"]), (["quick"], ["b tests"]),
                              (["all", "land"], ["a build", "a tests", "a rest", "b tests"]),
                              (["a"], ["a build", "a tests", "a rest"]), (["a tests"], ["a build", "a tests"])):
            self.assertEqual([step.name for step in selected(steps, wanted)], names)

    def test_times_are_shown_and_compared(self):
        tests = Report(2, 0, seconds=(("slow one", 7.25), ("quick one", 0.5)))
        results = [Result(Step("a", "tests", ""), tests, 0, 60, 100), Result(Step("b", "build", ""), Report(1, 0), 30, 30, 100),
                   Result(Step("c", "tests", ""), Report(1, 0), 60, 10, 10)]
        recorded = {"a tests": 80, "b build": 10, "c tests": 8}
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.assertEqual(summarise(results, 25, recorded), 0, "growth is named, and is no failure")
        self.assertIn("     7.2 s  a tests: slow one\n     0.5 s  a tests: quick one\n", printed.getvalue())
        self.assertIn("grew a tests: 100 s of processor time, and 80 before\n1.2 minutes; the goal is 25\n", printed.getvalue())
        # A build depends on the cache, and two seconds are noise.
        self.assertEqual(len(grown(results, recorded)), 1)
        self.assertEqual(grown(results[:1], {"a tests": 84}), [])

    def test_the_timeline_has_a_row_for_each_step_at_once(self):
        results = [Result(Step("a", "x", ""), Report(1, 0), 0, 10, 5), Result(Step("b", "x", ""), Report(0, 1), 4, 2, 5),
                   Result(Step("c", "x", ""), Report(1, 0), 6, 9, 5)]
        events = json.loads(timeline(results))["traceEvents"]
        self.assertEqual([(event["name"], event["tid"], event["ts"], event["dur"]) for event in events],
                         [("a x", 0, 0, 10_000_000), ("b x", 1, 4_000_000, 2_000_000), ("c x", 1, 6_000_000, 9_000_000)])

    def test_the_times_of_tests_are_read(self):
        nested = "# Subtest: group\n    # Subtest: inner\n    ok 1 - inner\n      ---\n      duration_ms: 1500.5\n      ...\n" \
                 "ok 1 - group\n  ---\n  duration_ms: 1600\n  ...\n# tests 1\n# fail 0\n"  # fmt: skip
        self.assertEqual(tap(nested, True).seconds, (("inner", 1.5005),))
        broken = "    not ok 1 - inner\n      ---\n      failureType: 'testCodeFailure'\n      ...\n" \
                 "not ok 1 - group\n  ---\n  failureType: 'subtestsFailed'\n  ...\n# tests 1\n# fail 1\n"  # fmt: skip
        self.assertEqual(tap(broken, False).names, ("inner",))
        self.assertEqual(reports('<testsuite><testcase name="a" status="run" time="2.5"/></testsuite>').seconds, (("a", 2.5),))

    def test_names_of_pytest_are_those_that_it_takes(self):
        case = '<testcase classname="tests.test_a{}" file="tests/test_a.py" name="test_b[x - y]" time="1"><failure message="m">why</failure></testcase>'
        report = reports(f"<testsuites><testsuite>{case.format('')}{case.format('.TestC')}</testsuite></testsuites>")
        self.assertEqual(report.names, ("python/tests/test_a.py::test_b[x - y]", "python/tests/test_a.py::TestC::test_b[x - y]"))
        self.assertIn("failure\nm\nwhy", report.shown)

    def test_files_without_tests_and_skips_are_named(self):
        report = tap("TAP version 13\nok 1 - test/empty.test.mjs\nok 2 - x # SKIP why\n# tests 2\n# fail 0\n# skipped 1\n", True)
        self.assertEqual((report.passed, report.failed), (0, 2))
        self.assertIn("test/empty.test.mjs: this file has no test", report.shown)
        self.assertIn("x: SKIP", report.shown)
        nothing, failed = tap_if_any("nothing changed\n", True), tap_if_any("no modules\n", False)
        self.assertEqual((nothing.passed, nothing.failed, failed.failed), (0, 0, 1))

    def test_a_step_that_hangs_is_ended_with_all_that_it_started(self):
        # The end of a step is for the thread that waits for it: another one that asked first would leave it waiting for ever.
        real, threads = os.waitpid, set()

        def asked(*arguments):
            threads.add(threading.current_thread())
            return real(*arguments)

        with unittest.mock.patch("runner.os.waitpid", asked):
            status, printed, _ = self.run_steps(Step("a", "tests", "sleep 3600 & sleep 3600", minutes=0.005))
        self.assertLessEqual(threads, {threading.main_thread()})
        self.assertEqual(status, 1)
        self.assertIn("ended after 0.005 minutes", printed)

    def test_nothing_outlives_a_step_or_the_runner(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        program = ("import pathlib, sys; sys.path.insert(0, sys.argv[1]); from runner import Step, run; "
                   "run([Step('a', 'tests', 'sleep 3600 & echo $! $$ > pids; mv pids known; wait')], pathlib.Path('logs'))")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            (folder / "known").unlink(missing_ok=True)
            process = subprocess.Popen([sys.executable, "-c", program, ROOT / "scripts/ci"], cwd=folder, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)  # fmt: skip
            while not (folder / "known").exists():
                time.sleep(0.01)
            process.send_signal(number)
            self.assertNotEqual(process.wait(60), 0)
            for pid in (folder / "known").read_text().split():
                self.assertTrue(gone(pid), f"a process outlives {number!r}")

    def test_what_a_step_leaves_behind_is_ended(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.run_steps(Step("a", "tests", f"sleep 3600 & echo $! > {folder}/pid"))
        self.assertTrue(gone((folder / "pid").read_text().strip()))

    def test_processes_of_others_are_reaped_and_ignored(self):
        orphan = subprocess.Popen(["true"])
        status, printed, _ = self.run_steps(Step("a", "tests", "sleep 0.2"))
        self.assertEqual(status, 0, printed)
        orphan.returncode = 0

    def test_steps_whose_needs_are_not_selected_are_an_error(self):
        with self.assertRaises(ValueError):
            self.run_steps(Step("a", "tests", "true", needs=("a build",)))

    def test_any_text_can_be_printed(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "text").write_bytes("ä\n".encode() + b"\xff\n")
        program = ("import pathlib, sys; sys.path.insert(0, sys.argv[1]); from runner import Step, run, summarise; "
                   "sys.exit(summarise(run([Step('a', 'tests', 'cat text; exit 1')], pathlib.Path('logs'))))")
        done = subprocess.run([sys.executable, "-c", program, ROOT / "scripts/ci"], cwd=folder, capture_output=True, check=False,
                              env={**os.environ, "PYTHONIOENCODING": "ascii"})  # fmt: skip
        self.assertEqual(done.stdout.splitlines()[-1], b"0 passed, 1 failed", done.stderr)

    def test_a_test_that_was_skipped_has_failed(self):
        tap_output = "ok 1 - x # SKIP\n# tests 5\n# pass 3\n# fail 1\n# cancelled 0\n# skipped 1\n# todo 0\n"
        cases = "".join(f'<testcase name="{status}" status="{status}"/>'
                        for status in ("run", "run", "fail", "notrun", "disabled"))
        of_pytest = '<testcase name="a"/><testcase name="b"><skipped message="no GPU"/></testcase><testcase name="c"><error/></testcase>'
        for report, expected in ((tap(tap_output, False), (3, 2)), (reports(f"<testsuite>{cases}</testsuite>"), (2, 3)),
                                 (reports(f"<testsuites><testsuite>{of_pytest}</testsuite></testsuites>"), (1, 2)),
                                 (reports(f"<t>{cases}</t>", f"<t>{of_pytest}</t>"), (3, 5))):
            self.assertEqual((report.passed, report.failed), expected)
        self.assertIn("b: skipped\nno GPU", reports(f"<t>{of_pytest}</t>").shown)
        of_ctest = '<testcase name="d" status="fail"><failure message=""/><system-out>what it printed</system-out></testcase>'
        self.assertIn("d: failure\nwhat it printed", reports(f"<t>{of_ctest}</t>").shown)

    def test_no_report_is_a_failure(self):
        good = '<t><testcase name="a"/></t>'
        for report in (tap("", True), tap("# tests 2\n# fail 0\n", False), junit("/missing")("", True), reports("<t/>"), reports("<t>"),
                       reports(good, "")):
            self.assertGreater(report.failed, 0)
        self.assertEqual(reports(good).failed, 0)

    def test_an_unknown_name_is_a_usage_error(self):
        done = subprocess.run([ROOT / "scripts/test", "nonsense"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no set, stage or step 'nonsense'", done.stderr)


if __name__ == "__main__":
    unittest.main()
