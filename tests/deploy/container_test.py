"""The image: what it runs with, what its build is given, and how it is asked for its health."""
import json
import os
import re
import tomllib
import unittest

import support

CONTAINER = support.DEPLOY / "container"
PROGRAMS = ("terraced", "terrace", "terrace-worker")
# Not linked: read by OpenSSL where Redis is behind TLS.
READ_AT_RUN_TIME = {"ca-certificates"}
# In every Debian there is.
BASE_PACKAGES = {"libc6", "libgcc-s1"}


def instructions():
    """(instruction, its text) in order; continued lines joined, comments out."""
    text = re.sub(r"^\s*#.*\n", "", (CONTAINER / "Containerfile").read_text(), flags=re.M)
    text = re.sub(r"\\\n", " ", text)
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line.strip()]


def stages():
    found = []
    for name, text in instructions():
        if name == "FROM":
            found.append([])
        found[-1].append((name, text))
    return found


def is_ignored(path):
    """As Docker reads .dockerignore: the last pattern that matches wins."""
    ignored = False
    for pattern in (support.ROOT / ".dockerignore").read_text().splitlines():
        if not pattern or pattern.startswith("#"):
            continue
        name = re.escape(pattern.lstrip("!").lstrip("/")).replace(r"\*\*/", "(.*/)?").replace(r"\*", "[^/]*")
        if re.match(f"{name}(/|$)", path):
            ignored = not pattern.startswith("!")
    return ignored


class Image(support.TestCase):
    def setUp(self):
        self.final = stages()[-1]

    def values(self, name):
        return [text for instruction, text in self.final if instruction == name]

    @support.needs("readelf", "ldconfig", "dpkg-query")
    def test_has_the_packages_of_the_libraries_and_no_other(self):
        linked = set()
        for program in PROGRAMS:
            dynamic = self.assert_runs("readelf", "-d", support.BIN_DIR / program)
            linked.update(re.findall(r"\(NEEDED\).*\[(lib.*)\]", dynamic))
        cached = re.findall(r"^\s+(\S+) \(.*\) => (\S+)$", support.run("ldconfig", "-p")[1], re.M)
        files = {}  # where each library really is, as the package may call it: /lib is /usr/lib
        for library, path in cached:
            if library in linked and library not in files:
                files[library] = {"/" + os.path.realpath(path).removeprefix(prefix) for prefix in ("/usr/", "/")}
        self.assertEqual(files.keys(), linked)
        _, owners = support.run("dpkg-query", "-S", *(name for names in files.values() for name in names))
        owner_of = {path: package for package, path in re.findall(r"^([^:\s]+)(?::\w+)?: (/\S+)$", owners, re.M)}
        packages = set()
        for library, names in files.items():
            found = {owner_of[name] for name in names if name in owner_of}
            self.assertEqual(len(found), 1, library)
            packages |= found
        installed = next(text for text in self.values("RUN") if "apt-get install" in text)
        installed = re.search(r"--no-install-recommends(.*?)&&", installed)[1].split()
        self.assertEqual(set(installed), packages - BASE_PACKAGES | READ_AT_RUN_TIME)

    def test_is_of_a_fixed_debian_and_nobody_is_root(self):
        for stage in stages():
            self.assertRegex(stage[0][1], r"^debian:bookworm-slim( AS \w+)?$")
        self.assertRegex(self.values("USER")[-1], r"^[1-9]\d*:[1-9]\d*$")
        self.assertIn(f"--uid {self.values('USER')[-1].split(':')[0]} ", self.values("RUN")[-1])

    def test_starts_what_it_has_with_a_good_configuration(self):
        copied = {text.split()[-2] for text in self.values("COPY")}
        self.assertIn("/programs/", copied)
        built = next(text for _, text in stages()[0] if "/programs" in text)
        for program in PROGRAMS:
            self.assertIn(f"build/release/bin/{program} ", built)
        self.assertEqual(json.loads(self.values("ENTRYPOINT")[0]), ["terraced"])
        self.assertEqual(json.loads(self.values("CMD")[0]), ["--config", "/etc/terrace/terraced.toml"])

        text = (CONTAINER / "terraced.toml").read_text()
        self.assert_is_good_config(text)
        config = tomllib.loads(text)
        self.assertIn(f"TERRACE_SOCKET={config['socket']}", self.values("ENV"))
        volumes = self.values("VOLUME")[0].split()
        self.assertIn(config["data_dir"], volumes)
        self.assertIn(config["socket"].rpartition("/")[0], volumes)

    def test_its_build_is_given_what_it_copies_and_compiles(self):
        sources = [word for stage in stages() for name, text in stage if name == "COPY" and "--from" not in text
                   for word in text.split()[:-1] if word != "."]
        folders = re.findall(r"^add_subdirectory\((\S+)\)", (support.ROOT / "CMakeLists.txt").read_text(), re.M)
        for path in [*sources, *folders, "cmake", "CMakePresets.json", "deploy/systemd"]:
            self.assertTrue((support.ROOT / path).exists(), path)
            self.assertFalse(is_ignored(path), path)
        for path in (".git", "build/dev/bin", "tests/core", "deploy/compose/secrets/redis-password"):
            self.assertTrue(is_ignored(path), path)


class Probe(support.TestCase):
    def probe(self, path, address):
        return support.run(CONTAINER / "terrace-probe", path, env={"PATH": "/usr/bin:/bin", "TERRACE_HTTP": address})[0]

    def test_says_what_the_daemon_says(self):
        health = next(text for name, text in stages()[-1] if name == "HEALTHCHECK")
        command = json.loads(health[health.index("["):])
        self.assertEqual(command[0], "terrace-probe")
        daemon = support.Daemon(self.temp_dir())
        try:
            address = daemon.http_address()
            for path in {command[1], "healthz", "readyz"}:
                self.assertEqual(self.probe(path, address), 0, path)
            self.assertNotEqual(self.probe("absent", address), 0)
        finally:
            daemon.close()
        self.assertNotEqual(self.probe("healthz", address), 0)


if __name__ == "__main__":
    support.main()
