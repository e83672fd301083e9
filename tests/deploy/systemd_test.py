"""terraced.service as systemd reads it, the paths in it beside those of the installation, and the daemon under its
filter of system calls."""
import ctypes
import ctypes.util
import os
import re
import shlex
import unittest

import support

# What the release has; every protection that is taken out raises it by .1 or more. Tenths.
MAX_EXPOSURE = 12
# A daemon that may not make these is refused its arenas, its ring, or its knowledge of who has ended.
NEEDED_CALLS = {"io_uring_setup", "io_uring_enter", "io_uring_register", "memfd_create", "pidfd_open", "fallocate"}


def settings_of(unit):
    """Each setting of [Service], with its values in order."""
    settings = {}
    for name, value in re.findall(r"^([A-Za-z]+)=(.*)$", unit.read_text(), re.M):
        settings.setdefault(name, []).append(value)
    return settings


def seconds(text):
    units = {"s": 1, "min": 60, "h": 3600}
    return sum(int(number) * units[unit or "s"] for number, unit in re.findall(r"(\d+)\s*(s|min|h)?", text))


class InstalledService(support.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = support.make_temp_dir(cls.addClassCleanup)
        # Of the programs, which are large, only where they are is of interest.
        for component, mode in (("programs", "ABS_SYMLINK"), ("service", "COPY")):
            environment = {**os.environ, "DESTDIR": str(cls.root), "CMAKE_INSTALL_MODE": mode}
            status, output = support.run(support.CMAKE, "--install", support.BUILD_DIR, "--component", component,
                                         env=environment)
            assert status == 0, output
        units = list(cls.root.glob("**/lib/systemd/system/terraced.service"))
        assert len(units) == 1, f"installed: {units}"
        cls.unit = units[0]
        cls.settings = settings_of(cls.unit)
        cls.command = shlex.split(cls.settings["ExecStart"][0])

    def inside(self, path):
        return self.root / path.lstrip("/")

    def setting(self, name):
        self.assertIn(name, self.settings)
        return self.settings[name][-1]

    def test_names_what_is_installed(self):
        self.assertNotIn("@CMAKE", self.unit.read_text())
        self.assertTrue(os.access(self.inside(self.command[0]), os.X_OK), self.command[0])
        manual = self.setting("Documentation").removeprefix("file:")
        self.assertTrue(self.inside(manual).is_file(), manual)

    def test_socket_and_data_lie_in_the_directories_that_systemd_makes(self):
        option = dict(zip(self.command[1::2], self.command[2::2]))
        self.assertEqual(option["--socket"], f"%t/{self.setting('RuntimeDirectory')}/terraced.sock")
        self.assertEqual(option["--data-dir"], f"%S/{self.setting('StateDirectory')}")
        # Claims of arenas lie there: the next daemon must find them.
        self.assertEqual(self.setting("RuntimeDirectoryPreserve"), "yes")

    def test_a_stop_may_take_as_long_as_a_drain(self):
        shown = support.options_of(self.assert_runs(support.BIN_DIR / "terrace", "config", "show"))
        self.assertGreaterEqual(seconds(self.setting("TimeoutStopSec")),
                                int(shown["drain_deadline_s"]) + support.STOP_MARGIN_S)

    def test_says_what_the_daemon_answers(self):
        self.assertEqual(self.setting("Type"), "notify")
        self.assertGreater(seconds(self.setting("WatchdogSec")), 0)
        self.assertEqual(self.setting("ExecReload"), '/bin/sh -c "kill -HUP $MAINPID"')

    @support.needs("systemd-analyze")
    def test_systemd_finds_no_mistake(self):
        copy = self.temp_dir() / "terraced.service"
        copy.write_text(self.unit.read_text().replace(self.command[0], str(self.inside(self.command[0]))))
        output = self.assert_runs("systemd-analyze", "verify", "--man=no", copy)
        # An unknown setting is no error to systemd, only ignored.
        self.assertNotIn("terraced.service", output)

    @support.needs("systemd-analyze")
    def test_is_exposed_to_little(self):
        self.assert_runs("systemd-analyze", "security", "--offline=true", f"--threshold={MAX_EXPOSURE}", self.unit)

    @unittest.skipIf(os.geteuid() != 0, "only root makes users")
    @support.needs("systemd-sysusers", "systemd-tmpfiles")
    def test_user_and_configuration_are_made(self):
        self.inside("/etc").mkdir()
        self.assert_runs("systemd-sysusers", f"--root={self.root}")
        users = [line.split(":")[0] for line in self.inside("/etc/passwd").read_text().splitlines()]
        self.assertIn(self.setting("User"), users)
        groups = [line.split(":")[0] for line in self.inside("/etc/group").read_text().splitlines()]
        self.assertIn(self.setting("Group"), groups)

        config = self.inside(self.command[self.command.index("--config") + 1])
        make = ("systemd-tmpfiles", "--create", f"--root={self.root}", "terrace.conf")
        self.assert_runs(*make)
        self.assert_is_good_config(config.read_text())
        config.write_text("# an operator's\n")
        self.assert_runs(*make)
        self.assertEqual(config.read_text(), "# an operator's\n")


class SystemCallFilter:
    """The unit's SystemCallFilter=, as systemd makes it: what is not named fails with EPERM."""

    def __init__(self, values):
        self.library = ctypes.CDLL(ctypes.util.find_library("seccomp"), use_errno=True)
        self.calls = set()
        for value in values:
            names = set().union(*(expanded(name) for name in value.lstrip("~").split()))
            self.calls = self.calls - names if value.startswith("~") else self.calls | names

    def apply(self):
        """To this process and all it executes. Calls of other architectures have numbers below -1: left out."""
        allow, eperm = 0x7FFF0000, 0x00050000 | 1
        self.library.seccomp_init.restype = ctypes.c_void_p
        rules = ctypes.c_void_p(self.library.seccomp_init(eperm))
        for name in self.calls:
            number = self.library.seccomp_syscall_resolve_name(name.encode())
            if number >= 0 and self.library.seccomp_rule_add(rules, allow, number, 0) != 0:
                os._exit(126)
        refuse_new_executable_memory()
        if self.library.seccomp_load(rules) != 0:
            os._exit(126)


def refuse_new_executable_memory():
    """As MemoryDenyWriteExecute=; kernels before 6.3 cannot."""
    pr_set_mdwe, refuse_exec_gain = 65, 1
    ctypes.CDLL(None).prctl(pr_set_mdwe, refuse_exec_gain, 0, 0, 0)


def expanded(name):
    """The calls of a set such as @system-service, and of the sets in it."""
    if not name.startswith("@"):
        return {name}
    _, output = support.run("systemd-analyze", "--no-pager", "syscall-filter", name)
    words = [line.strip() for line in output.splitlines()[1:]]
    return set().union(*(expanded(word) for word in words if word and not word.startswith("#")))


@support.needs("systemd-analyze")
@unittest.skipIf(ctypes.util.find_library("seccomp") is None, "not installed: libseccomp")
class DaemonUnderTheFilter(support.TestCase):
    def setUp(self):
        self.filter = SystemCallFilter(
            settings_of(support.DEPLOY / "systemd" / "terraced.service.in")["SystemCallFilter"])

    def test_the_filter_has_what_cannot_be_done_without(self):
        self.assertLessEqual(NEEDED_CALLS, self.filter.calls)

    def test_serves_as_it_does_without(self):
        rings = {}
        for name, before_exec in (("free", None), ("filtered", self.filter.apply)):
            directory = self.temp_dir()
            daemon = support.Daemon(directory, before_exec=before_exec)
            try:
                self.assert_runs(support.BIN_DIR / "terrace", "--socket", daemon.socket, "stats")
                rings[name] = re.search(r", (io_uring|threads),", daemon.log.read_text())[1]
            finally:
                self.assertEqual(daemon.close(), 0)
            self.assertNotIn(" warning ", daemon.log.read_text())
        self.assertEqual(rings["filtered"], rings["free"])


if __name__ == "__main__":
    support.main()
