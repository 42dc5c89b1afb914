#!/usr/bin/env python3
"""Builds and runs the tests, and says what it is doing; ends with one line `N passed, N failed, N skipped`.

script/test calls it. Each stage is a list of programs; what a program says of itself (cmocka's, unittest's
or the simulator's closing lines) is counted, and a program that says nothing counts as one test by its exit status.
Programs of a stage run two at a time; the real-kill and timing tests run alone.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
START = time.monotonic()


def say(text):
    print(f"[{time.monotonic() - START:6.1f} s] {text}", flush=True)


class Totals:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.failures = []

    def add(self, name, passed, failed, skipped, output, seconds):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped
        mark = "ok  " if failed == 0 else "FAIL"
        extra = f", {skipped} skipped" if skipped else ""
        say(f"{mark} {name}: {passed} passed{extra} ({seconds:.1f} s)")
        if failed:
            self.failures.append(name)
            print("\n".join("      " + line for line in output.splitlines()[-60:]), flush=True)
        for line in output.splitlines():
            if line.startswith("skipped:"):
                say("     " + line)


TOTALS = Totals()


def count(output, status):
    """What the program says of itself → (passed, failed, skipped)."""
    own = re.findall(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", output, re.M)
    if own:
        passed, failed, skipped = (sum(int(row[i] or 0) for row in own) for i in range(3))
    elif "[  PASSED  ]" in output or "[  FAILED  ]" in output:
        passed = sum(int(n) for n in re.findall(r"^\[  PASSED  \] (\d+) test\(s\)\.?$", output, re.M))
        failed = sum(int(n) for n in re.findall(r"^\[  FAILED  \].*?(\d+) test\(s\)", output, re.M))
        skipped = sum(int(n) for n in re.findall(r"^\[  SKIPPED \].*?(\d+) test\(s\)", output, re.M))
    elif re.search(r"^Ran (\d+) tests?", output, re.M):
        ran = int(re.search(r"^Ran (\d+) tests?", output, re.M).group(1))
        said = dict((k, int(v)) for k, v in re.findall(r"(failures|errors|skipped)=(\d+)", output.splitlines()[-1]))
        failed = said.get("failures", 0) + said.get("errors", 0)
        skipped = said.get("skipped", 0)
        passed = ran - failed - skipped
    else:
        passed, failed, skipped = (1, 0, 0) if status == 0 else (0, 1, 0)
    if status != 0 and failed == 0:
        failed = 1
    return passed, failed, skipped


def run_one(name, command, env=None, limit=600, cwd=ROOT):
    began = time.monotonic()
    full = dict(os.environ)
    full.update(env or {})
    try:
        done = subprocess.run(command, cwd=cwd, env=full, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=limit)
        status, output = done.returncode, done.stdout.decode("utf-8", "replace")
    except subprocess.TimeoutExpired as slow:
        status, output = 124, (slow.stdout or b"").decode("utf-8", "replace") + f"\ntimed out after {limit} s"
    TOTALS.add(name, *count(output, status), output, time.monotonic() - began)


def run_many(jobs, at_once=2):
    with ThreadPoolExecutor(at_once) as pool:
        for future in [pool.submit(run_one, *job) for job in jobs]:
            future.result()


def build(directory, *options, compiler=None, targets=()):
    env = dict(os.environ)
    if compiler:
        env["CC"] = compiler
    path = os.path.join(ROOT, directory)
    say(f"building {directory} ({compiler or env.get('CC', 'the default compiler')}{' ' if options else ''}{' '.join(options)})")
    began = time.monotonic()
    if not os.path.exists(os.path.join(path, "build.ninja")):
        steps = [["meson", "setup", path, ROOT, *options]]
    else:  # script/run configures without the tests
        steps = [] if "-Dtests=false" in options else [["meson", "configure", path, "-Dtests=true"]]
    steps.append(["ninja", "-C", path, *targets])
    for step in steps:
        done = subprocess.run(step, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            TOTALS.add(f"build {directory}", 0, 1, 0, done.stdout.decode("utf-8", "replace"), time.monotonic() - began)
            finish()
        warnings = done.stdout.decode("utf-8", "replace").count("warning:")
        if warnings:
            TOTALS.add(f"warnings in {directory}", 0, 1, 0,
                       "\n".join(l for l in done.stdout.decode("utf-8", "replace").splitlines() if "warning:" in l), 0)
    return path


def programs(path, suites, words=()):
    """The test programs that the build knows, by suite, with their environment."""
    out = subprocess.run(["meson", "introspect", "--tests", path], stdout=subprocess.PIPE, check=True).stdout
    jobs = []
    for test in json.loads(out):
        suite = test["suite"][0].split(":")[-1] if test["suite"] else ""
        if suite not in suites or (words and not any(word in test["name"] for word in words)):
            continue
        env = test["env"] if isinstance(test["env"], dict) else {}
        jobs.append((f"{suite}/{test['name']}", test["cmd"], env, max(int(test.get("timeout") or 30), 60) * 4, test.get("workdir") or path))
    return jobs


def e2e_jobs(path, words=(), kills=40, names=None):
    env = {"PAWL_BIN": os.path.join(path, "src/cli/pawl"), "PAWL_BUILD": path, "PAWL_KILLS": str(kills)}
    folder = os.path.join(ROOT, "tests/e2e")
    for name in sorted(os.listdir(folder)):
        if not name.startswith("test_") or not name.endswith(".py"):
            continue
        if (words and not any(word in name for word in words)) or (names and name not in names):
            continue
        yield (f"e2e/{name[:-3]}", [sys.executable, "-W", "ignore", os.path.join(folder, name)], env, 900)


def simulator(path, name, *arguments, limit=1500):
    return (f"sim {name}", [os.path.join(path, "tests/sim/pawl-sim"), *arguments], {}, limit)


def stage_default(words):
    path = build("build")
    run_one("docs/rules.md is what the tests say", [sys.executable, "script/rules", "--check"])
    say("units and conformance")
    run_many(programs(path, ("unit", "conformance"), words))
    if not words or "sim" in words:
        say("simulator: every single-crash position of ten stories, 5,000 seeds, and the judge judged")
        run_many([simulator(path, "crashes", "--crashes"), simulator(path, "seeds", "--seeds", "1..5000"),
                  simulator(path, "self-test", "--self-test")])
    say("end to end, through the program; 40 real kills")
    run_many(list(e2e_jobs(path, words)), at_once=1)


def check_format():
    """Every C file is laid out as .clang-format says."""
    files = subprocess.run(["git", "ls-files", "*.c", "*.h"], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout.split()
    run_one("clang-format", ["clang-format", "--dry-run", "-Werror", *files])


def stage_all():
    check_format()
    clang = build("build-clang", compiler="clang")
    say("units under clang")
    run_many(programs(clang, ("unit", "conformance")))

    address = build("build-asan", "-Db_sanitize=address,undefined", "-Db_lundef=false", compiler="clang")
    env_address = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
    say("units, conformance, stories and seeds under AddressSanitizer and UndefinedBehaviorSanitizer")
    os.environ.update(env_address)
    run_many(programs(address, ("unit", "conformance")))
    run_many([simulator(address, "crashes (asan)", "--crashes"), simulator(address, "seeds (asan)", "--seeds", "50001..51000")])
    run_many(list(e2e_jobs(address, kills=10)), at_once=1)

    thread = build("build-tsan", "-Db_sanitize=thread", "-Db_lundef=false", compiler="clang")
    say("the runtime under ThreadSanitizer")
    os.environ["TSAN_OPTIONS"] = "halt_on_error=1:second_deadlock_stack=1"
    run_many([job for job in programs(thread, ("unit", "conformance")) if any(w in job[0] for w in ("runtime", "read", "follow", "tool", "http", "hub"))])

    gcc = os.path.join(ROOT, "build")
    say("50,000 seeds and 200 real kills")
    run_many([simulator(gcc, "seeds 1..25000", "--seeds", "5001..30000"), simulator(gcc, "seeds 25001..50000", "--seeds", "30001..55000")])
    run_many(list(e2e_jobs(gcc, kills=200, names=("test_kill.py",))), at_once=1)

    fuzz = build("build-fuzz", "-Dtests=false", "-Dfuzz=true", "-Db_sanitize=address,undefined", "-Db_lundef=false",
                 "-Dc_args=-fsanitize=fuzzer-no-link", compiler="clang")
    seconds = os.environ.get("PAWL_FUZZ_SECONDS", "20")
    say(f"each parser fuzzed {seconds} s")
    folder = os.path.join(fuzz, "tests/fuzz")
    targets = sorted(n for n in os.listdir(folder) if n.startswith("fuzz_") and os.access(os.path.join(folder, n), os.X_OK)
                     and os.path.isfile(os.path.join(folder, n)))
    run_many([(f"fuzz/{n}", [os.path.join(folder, n), f"-max_total_time={seconds}", "-rss_limit_mb=2048", "-timeout=20",
                             "-print_final_stats=0", "-verbosity=0", f"-artifact_prefix={folder}/{n}-"], {}, 300) for n in targets])


def report_figures():
    """The benchmarks' figures, for the log: reported, not judged."""
    say("figures (bench/run --quick; reported, not judged)")
    try:
        done = subprocess.run([sys.executable, "bench/run", "--quick", "--no-write"], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=600)
        print(done.stdout.decode("utf-8", "replace"), flush=True)
    except subprocess.TimeoutExpired:
        say("the benchmarks took over 600 s: no figures")


def soak(minutes):
    path = build("build")
    end = time.monotonic() + minutes * 60
    seed = int(time.time())
    while time.monotonic() < end and not TOTALS.failed:
        run_many([simulator(path, f"seeds from {seed}", "--seeds", f"{seed}..{seed + 49999}")] + list(e2e_jobs(path, kills=200, names=("test_kill.py",))))
        seed += 50000


def finish():
    if TOTALS.failures:
        say("failed: " + ", ".join(TOTALS.failures))
    print(f"{TOTALS.passed} passed, {TOTALS.failed} failed, {TOTALS.skipped} skipped", flush=True)
    sys.exit(1 if TOTALS.failed or not TOTALS.passed else 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--soak", type=float, metavar="MINUTES")
    parser.add_argument("words", nargs="*")
    arguments = parser.parse_args()
    if arguments.soak:
        soak(arguments.soak)
    else:
        stage_default(arguments.words)
        if arguments.all:
            stage_all()
            report_figures()
    finish()


if __name__ == "__main__":
    main()
