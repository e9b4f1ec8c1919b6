#!/usr/bin/env python3
# promise CL7: shells complete every command, method, flag and value, `--flag=value` too, and programs behind `--`
"""lockstock completion: what bash, zsh and fish complete.

    cli_completion.py LOCKSTOCK LOCKSTOCKD
"""
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

from cli_scene import LIMIT_S, LOCKSTOCK, OK, USAGE, Terminal, main


def run(*args, **kwargs):
    return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S, check=False, **kwargs)


class Completion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="lt-", dir="/tmp")
        os.symlink(LOCKSTOCK, f"{cls.dir}/lockstock")
        cls.env = {"PATH": f"{cls.dir}:{os.environ['PATH']}", "HOME": cls.dir}
        for shell in ("bash", "zsh", "fish"):
            made = run(LOCKSTOCK, "completion", shell)
            assert made.returncode == OK, made.stderr
            with open(f"{cls.dir}/{shell}", "w") as script:
                script.write(made.stdout)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def type(self, terminal, keys, until):
        """Waits for the text, after what came before."""
        at = len(terminal.text)
        terminal.type(keys)
        terminal.wait(re.escape(until), at)

    def terminal(self, *args, env):
        terminal = Terminal(*args, env={**os.environ, **self.env, **env}, kind="dumb")
        self.addCleanup(terminal.close)
        return terminal

    def bash(self, *words):
        """The completions of bash; as bash splits words, --flag=value is three words."""
        script = (f". {self.dir}/bash; COMP_WORDS=(lockstock {' '.join(map(shlex.quote, words))}); "
                  f"COMP_CWORD={len(words)}; _lockstock; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
        done = run("bash", "--norc", "--noprofile", "-uc", script, cwd=self.dir,
                   env={**os.environ, **self.env})
        self.assertNotRegex(done.stderr, "(?i)unbound|syntax|not found", words)
        return done.stdout.split()

    def has(self, completed, *words):
        for word in words:
            self.assertIn(word, completed)

    def test_commands_and_services(self):
        words = self.bash("")
        self.has(words, "run", "once", "limit", "lock", "stock", "idempotency", "rate-limit", "id", "admin", "status",
                 "doctor", "completion", "bench")
        self.assertEqual(len(words), len(set(words)))
        self.assertEqual(self.bash("st"), ["stock", "status"])
        self.assertEqual(self.bash("nothing", ""), [])
        usage = run(LOCKSTOCK, "--help").stdout
        for word in words:
            self.assertRegex(usage, rf"(?m)^  (lockstock )?{word}\b")

    def test_methods(self):
        self.has(self.bash("lock", ""), "acquire", "force-release", "ls", "list", "exec")
        self.assertEqual(self.bash("lock", "acq"), ["acquire"])
        self.assertEqual(self.bash("--server", "run", "--json", "lock", "acq"), ["acquire"])
        self.assertEqual(self.bash("--server", "=", "run", "lock", "acq"), ["acquire"])
        self.assertEqual(self.bash("stock", "led"), ["ledger"])
        self.has(self.bash("guard", ""), "enter", "leave", "run")

    def test_flags(self):
        self.has(self.bash("lock", "acquire", "--"), "--lease", "--wait", "--target", "--server", "--json")
        self.assertEqual(self.bash("lock", "acquire", "door", "--lea"), ["--lease"])
        self.assertEqual(self.bash("run", "--lo"), ["--lock"])
        self.has(self.bash("guard", "run", "--"), "--once", "--locks", "--lease", "--result", "--store-output")
        self.assertEqual(self.bash("stock", "ledger", "phone", "--fol"), ["--follow"])
        self.assertNotIn("--lease", self.bash("status", "--"))
        self.assertEqual(self.bash("--names"), ["--namespace"])

    def test_values(self):
        choices = ["all-or-nothing", "independent"]
        self.assertEqual(self.bash("rate-limit", "check", "--mode", ""), choices)
        self.assertEqual(self.bash("rate-limit", "check", "--mode", "="), choices)
        self.assertEqual(self.bash("rate-limit", "check", "--mode", "=", "ind"), choices[1:])
        self.assertEqual(self.bash("completion", ""), ["bash", "zsh", "fish"])
        self.assertEqual(self.bash("run", "--wait", ""), [])
        self.assertEqual(self.bash("--tls-ca", "fi"), ["fish"])
        self.has(self.bash("run", "--lock", "x", "--", "lockst"), "lockstock")
        self.assertEqual(self.bash("run", "--lock", "x", "--", "cat", "fi"), ["fish"])

    def test_each_flag_of_help_is_completed(self):
        for words in (["lock", "acquire"], ["stock", "put"], ["rate-limit", "check"], ["once"], ["stock", "watch"], ["guard", "run"]):
            for line in run(LOCKSTOCK, *words, "--help").stdout.splitlines():
                if line.startswith("  --"):
                    self.has(self.bash(*words, "--"), line.split()[0])

    def test_tab_in_bash(self):
        terminal = self.terminal("bash", "--norc", "--noprofile", "-i", env={"PS1": "> "})
        self.type(terminal, f". {self.dir}/bash\n", "> ")
        self.type(terminal, "lockstock doc\t", "lockstock doctor ")
        self.type(terminal, "\025lockstock lock force-r\t--rea\t", "force-release --reason ")

    @unittest.skipUnless(shutil.which("zsh"), "there is no zsh")
    def test_zsh(self):
        done = run("zsh", "-n", f"{self.dir}/zsh")
        self.assertEqual((done.returncode, done.stderr), (OK, ""))
        terminal = self.terminal("zsh", "-f", "-i", env={"PS1": "> "})
        self.type(terminal, f"unsetopt zle_bracketed_paste; autoload -Uz compinit; compinit -u -D; . {self.dir}/zsh; cd; echo re''ady\n",
                      "ready")
        self.type(terminal, "lockstock doc\t", "doctor ")
        self.type(terminal, "\025lockstock lock force-r\t--rea\t", "--reason ")
        self.type(terminal, "\025lockstock rate-limit check --mode=ind\t", "independent")
        self.type(terminal, "\025lockstock --tls-ca=fi\t", "fish")
        self.type(terminal, "\025lockstock run --lock x -- cat fi\t", "fish")

    @unittest.skipUnless(shutil.which("fish"), "there is no fish")
    def test_fish(self):
        done = run("fish", "-n", f"{self.dir}/fish")
        self.assertEqual((done.returncode, done.stderr), (OK, ""))
        for line, words in (("lockstock doc", ["doctor"]), ("lockstock --server x lock acq", ["acquire"]),
                            ("lockstock lock acquire --lea", ["--lease"]),
                            ("lockstock rate-limit check --mode ", ["all-or-nothing", "independent"]),
                            ("lockstock rate-limit check --mode=ind", ["--mode=independent"]),
                            ("lockstock completion ", ["bash", "fish", "zsh"]),
                            ("lockstock --tls-ca fi", ["fish"]), ("lockstock --tls-ca=fi", ["--tls-ca=fish"]),
                            ("lockstock run --lock x -- lockst", ["lockstock"]),
                            ("lockstock run --lock x -- cat fi", ["fish"])):
            done = run("fish", "--no-config", "-c", f"source {self.dir}/fish; complete -C {shlex.quote(line)}",
                       cwd=self.dir, env={**os.environ, **self.env})
            self.assertEqual(done.stderr, "")
            self.assertEqual([said.split("\t")[0] for said in done.stdout.splitlines()], words, line)

    def test_other_shells(self):
        for args in (["completion"], ["completion", "tcsh"], ["completion", "bash", "zsh"]):
            self.assertEqual(run(LOCKSTOCK, *args).returncode, USAGE)
        self.assertIn("bash|zsh|fish", run(LOCKSTOCK, "completion", "--help").stdout)


if __name__ == "__main__":
    main()
