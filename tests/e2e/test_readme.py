#!/usr/bin/env python3
"""The README's C program compiles as it stands, by pkg-config against the installed header and library, and does what it says."""
import os
import re
import subprocess
import tempfile
import unittest

from harness import ROOT

BUILD = os.environ.get("PAWL_BUILD", os.path.join(ROOT, "build"))


class Readme(unittest.TestCase):
    def test_thirty_lines_of_c_run(self):
        text = open(os.path.join(ROOT, "README.md"), encoding="utf-8").read()
        source = re.search(r"```c\n(.*?)```", text, re.S).group(1)
        with tempfile.TemporaryDirectory(prefix="pawl-readme-") as folder:
            path = os.path.join(folder, "demo.c")
            with open(path, "w", encoding="utf-8") as file:
                file.write(source)
            root = os.path.join(folder, "root")
            subprocess.run(["meson", "install", "-C", BUILD, "--destdir", root, "--no-rebuild"], check=True, stdout=subprocess.DEVNULL)
            package = next(os.path.join(where, "pawl.pc") for where, _, names in os.walk(root) if "pawl.pc" in names)
            environment = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(package), PKG_CONFIG_SYSROOT_DIR=root)
            words = subprocess.run(["pkg-config", "--cflags", "--libs", "pawl"], env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
            library = next(word[2:] for word in words if word.startswith("-L"))
            flags = ["-fsanitize=address,undefined"] if "asan" in BUILD else []
            compiler = "clang" if flags else os.environ.get("CC", "cc")
            subprocess.run([compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", *flags, path, *words, "-Wl,-rpath," + library, "-o", path + ".out"], check=True)
            out = subprocess.run([path + ".out"], check=True, stdout=subprocess.PIPE, timeout=30).stdout.decode()
            self.assertIn('"state":"completed"', out)
            self.assertIn("Noon: ", out)


if __name__ == "__main__":
    unittest.main()
