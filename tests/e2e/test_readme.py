#!/usr/bin/env python3
"""The README's C program compiles as it stands, against the header and the library that the build made, and does what it says."""
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
            library = os.path.join(BUILD, "src", "runtime")
            flags = ["-fsanitize=address,undefined"] if "asan" in BUILD else []
            compiler = "clang" if flags else os.environ.get("CC", "cc")
            subprocess.run([compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", *flags, path, "-I" + os.path.join(ROOT, "include"),
                            "-L" + library, "-lpawl", "-Wl,-rpath," + library, "-o", path + ".out"], check=True)
            out = subprocess.run([path + ".out"], check=True, stdout=subprocess.PIPE, timeout=30).stdout.decode()
            self.assertIn('"state":"completed"', out)
            self.assertIn("Noon: ", out)


if __name__ == "__main__":
    unittest.main()
