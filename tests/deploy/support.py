"""What the tests of deploy/ share: where things are, programs that may be absent, a terraced of one's own."""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
BUILD_DIR = pathlib.Path(os.environ.get("TERRACE_BUILD_DIR", ROOT / "build" / "dev"))
BIN_DIR = pathlib.Path(os.environ.get("TERRACE_BIN_DIR", BUILD_DIR / "bin"))
CMAKE = os.environ.get("TERRACE_CMAKE", "cmake")

# What stopping takes beside draining: closing the index, the arenas given back.
STOP_MARGIN_S = 10
START_TIMEOUT_S = 30
SKIPPED = 77


def needs(*tools):
    """Skips a test, or a class of them, where a program is not installed."""
    absent = [tool for tool in tools if shutil.which(tool) is None]
    return unittest.skipIf(absent, "not installed: " + ", ".join(absent))


def yaml_documents(path):
    """The documents of a YAML file; a key that is there twice is a mistake, not an override."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node, deep=False):
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            twice = [key for key in keys if keys.count(key) > 1]
            if twice:
                raise ValueError(f"{path}:{node.start_mark.line + 1}: {twice[0]!r} is there twice")
            return super().construct_mapping(node, deep)

    return list(yaml.load_all(path.read_text(), Loader))


def run(*command, **options):
    """A program's exit status and all it prints."""
    done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, **options)
    return done.returncode, done.stdout


def make_temp_dir(add_cleanup):
    # Short: a socket's path has 107 bytes.
    directory = tempfile.TemporaryDirectory(prefix="terrace-")
    add_cleanup(directory.cleanup)
    return pathlib.Path(directory.name)


class TestCase(unittest.TestCase):
    def temp_dir(self):
        return make_temp_dir(self.addCleanup)

    def assert_runs(self, *command, **options):
        status, output = run(*command, **options)
        self.assertEqual(status, 0, f"{command[0]} failed:\n{output}")
        return output

    def assert_is_good_config(self, text):
        """What terraced itself says of a configuration; returns every option as it ends up, by name. Secrets, which it
        reads, are where it runs: another file stands for them."""
        file, secret = self.temp_dir() / "terraced.toml", self.temp_dir() / "secret"
        secret.write_text("word\n")
        secret.chmod(0o600)
        file.write_text(re.sub(r'^password_file = ".*"$', f'password_file = "{secret}"', text, flags=re.M))
        self.assert_runs(BIN_DIR / "terrace", "config", "check", "--config", file)
        return options_of(self.assert_runs(BIN_DIR / "terrace", "config", "show", "--config", file))


def options_of(toml):
    """'section.name' to value, as text without quotes. For what `terrace config show` prints, a line an option."""
    options, section = {}, ""
    for line in toml.splitlines():
        line = line.split(" #")[0].strip()
        if line.startswith("["):
            section = line.strip("[]") + "."
        elif "=" in line and not line.startswith("#"):
            name, value = line.split("=", 1)
            options[section + name.strip()] = value.strip().strip('"')
    return options


def notifying(command, address, **options):
    """Starts a program that tells a service manager when it is ready, and returns once it has."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(START_TIMEOUT_S)
        process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL,
                                   env={**os.environ, "NOTIFY_SOCKET": str(address)}, **options)
        try:
            while b"READY=1" not in manager.recv(4096):
                pass
        except TimeoutError:
            process.kill()
            process.wait()
            raise AssertionError(f"{command[0]} did not get ready") from None
        return process


class Daemon:
    """A terraced with small tiers, ready once this returns. Stopped by close()."""

    def __init__(self, directory, *settings, before_exec=None):
        self.socket = directory / "d.sock"
        self.log = directory / "log"
        options = ["device.capacity=64MiB", "disk.capacity=64MiB", "http.listen=127.0.0.1:0", *settings]
        command = [BIN_DIR / "terraced", "--socket", self.socket, "--data-dir", directory / "data",
                   *(part for option in options for part in ("--set", option))]
        with open(self.log, "wb") as log:
            self.process = notifying(command, directory / "notify", stdout=log, stderr=log, preexec_fn=before_exec)

    def http_address(self):
        line = next(line for line in self.log.read_text().splitlines() if "http: listening on" in line)
        return line.split("http://")[1].rstrip("/")

    def close(self):
        self.process.terminate()
        return self.process.wait(START_TIMEOUT_S)


def main():
    result = unittest.TextTestRunner(verbosity=2).run(
        unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))
    for test, reason in result.skipped:
        print(f"skipped {test}: {reason}")
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.skipped else 0)
