"""Compose and Kubernetes: what the daemon and its workers must have in common, whoever starts them, and that the
embedded configurations are terraced's."""
import re
import subprocess
import tomllib
import unittest

import support

try:
    import yaml  # noqa: F401
except ImportError:
    yaml = None

KUBERNETES = support.DEPLOY / "kubernetes"
COMPOSE = support.DEPLOY / "compose"
# What terraced takes beside its arenas, at least.
REST_BYTES = 1 << 30
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def size_bytes(text):
    number, unit = re.fullmatch(r"(\d+)\s*([KMGT]?)(?:i?B?)", str(text).upper().replace("I", "i")).groups()
    return int(number) * UNITS[unit]


def image_of_this_version():
    version = re.search(r"project\(terrace VERSION (\S+)", (support.ROOT / "CMakeLists.txt").read_text())[1]
    return f"terrace:{version}"


def user_of_the_image():
    text = (support.DEPLOY / "container" / "Containerfile").read_text()
    return tuple(int(number) for number in re.search(r"^USER (\d+):(\d+)$", text, re.M).groups())


def socket_of_the_image():
    text = (support.DEPLOY / "container" / "Containerfile").read_text()
    return re.search(r"^ENV TERRACE_SOCKET=(\S+)$", text, re.M)[1]


def folder(path):
    return path.rpartition("/")[0]


def is_loopback(listen):
    return listen.startswith("127.") or listen.startswith("[::1]")


@unittest.skipIf(yaml is None, "not installed: python3-yaml")
class ManifestCase(support.TestCase):
    def check_config(self, text, memory_bytes, stop_s):
        """What a manifest says around a configuration has room for what that takes. Returns it with its defaults."""
        options = self.assert_is_good_config(text)
        device_bytes = size_bytes(options["device.capacity"])
        self.assertGreaterEqual(memory_bytes, device_bytes + REST_BYTES)
        self.assertGreaterEqual(stop_s, int(options["drain_deadline_s"]) + support.STOP_MARGIN_S)
        return options


class Compose(ManifestCase):
    def setUp(self):
        (self.compose,) = support.yaml_documents(COMPOSE / "compose.yaml")
        self.daemon, self.worker, self.redis = (self.compose["services"][name]
                                                for name in ("terraced", "worker", "redis"))
        self.config_text = (COMPOSE / "terraced.toml").read_text()
        self.config = tomllib.loads(self.config_text)

    @staticmethod
    def mounts(service):
        """Where in the container: what."""
        return {volume.split(":")[-2 if volume.endswith(":ro") else -1]: volume for volume in service["volumes"]}

    def test_images_and_build_are_there(self):
        for service in (self.daemon, self.worker):
            self.assertEqual(service["image"], image_of_this_version())
        build = self.daemon["build"]
        context = (COMPOSE / build["context"]).resolve()
        self.assertEqual(context, support.ROOT)
        self.assertTrue((context / build["dockerfile"]).is_file())

    def test_configuration_is_terraceds_and_fits(self):
        stop_s = int(self.daemon["stop_grace_period"].removesuffix("s"))
        self.check_config(self.config_text, size_bytes(self.daemon["mem_limit"]), stop_s)
        mounted = self.mounts(self.daemon)["/etc/terrace/terraced.toml"].split(":")[0]
        self.assertTrue((COMPOSE / mounted).samefile(COMPOSE / "terraced.toml"))

    def test_worker_and_daemon_meet(self):
        self.assertEqual(self.config["socket"], socket_of_the_image())
        place = folder(self.config["socket"])
        shared = {self.mounts(service)[place].split(":")[0] for service in (self.daemon, self.worker)}
        self.assertEqual(len(shared), 1)
        self.assertLessEqual(shared, set(self.compose["volumes"]))
        # The daemon alone sees the processes of others: a namespace of its own that workers join would end with it.
        self.assertEqual(self.daemon["pid"], "host")
        self.assertNotIn("pid", self.worker)

    def test_data_outlives_the_container(self):
        source = self.mounts(self.daemon)[self.config["data_dir"]].split(":")[0]
        self.assertIn(source, self.compose["volumes"])

    def test_redis_is_found_and_lets_only_terraced_in(self):
        redis = self.config["redis"]
        self.assertEqual(redis["endpoints"], ["redis:6379"])
        secret = redis["password_file"].removeprefix("/run/secrets/")
        self.assertIn(secret, self.compose["secrets"])
        for service in (self.daemon, self.redis):
            self.assertIn(secret, service["secrets"])
        self.assertNotIn("ports", self.redis)

    @support.needs("redis-server", "redis-cli")
    def test_redis_starts_as_it_says_and_wants_the_password(self):
        directory = self.temp_dir()
        (directory / "secret").write_text("word\n")
        shell, options, script = self.redis["command"]
        script = script.replace("$$", "$").replace("/run/secrets/redis-password", str(directory / "secret"))
        script = script.replace("/etc/terrace-redis.conf", str(COMPOSE / "redis.conf"))
        script = script.replace("/tmp/redis.conf", str(directory / "redis.conf"))
        socket = directory / "s"
        script = script.rstrip() + f" --port 0 --unixsocket {socket} --supervised systemd"
        server = support.notifying((shell, options, script), directory / "notify", stdout=subprocess.DEVNULL)
        try:
            client = ("redis-cli", "-s", socket)
            self.assertIn("NOAUTH", support.run(*client, "GET", "a")[1])
            self.assertIn("allkeys-lru", support.run(*client, "--no-auth-warning", "-a", "word", "CONFIG", "GET",
                                                     "maxmemory-policy")[1])
        finally:
            server.terminate()
            server.wait()

    def test_nobody_has_more_rights_than_he_needs(self):
        for name, service in self.compose["services"].items():
            self.assertEqual(service["cap_drop"], ["ALL"], name)
            self.assertIn("no-new-privileges:true", service["security_opt"], name)
            self.assertTrue(service["read_only"], name)
        for port in self.daemon["ports"]:
            self.assertTrue(port.startswith("127.0.0.1:"), port)


class Kubernetes(ManifestCase):
    def setUp(self):
        self.documents = {}
        for file in sorted(KUBERNETES.glob("*.yaml")):
            for document in support.yaml_documents(file):
                for name in ("apiVersion", "kind", "metadata"):
                    self.assertIn(name, document, file)
                self.documents[file.stem, document["kind"]] = document
        self.sidecar = self.documents["sidecar", "Deployment"]["spec"]["template"]["spec"]
        self.node = self.documents["daemonset", "DaemonSet"]["spec"]["template"]["spec"]
        self.node_worker = self.documents["worker", "Pod"]["spec"]

    def pods(self):
        return {"sidecar": self.sidecar, "daemonset": self.node, "worker": self.node_worker}

    @staticmethod
    def container(pod, name):
        return next(one for one in [*pod.get("initContainers", []), *pod["containers"]] if one["name"] == name)

    def config_text(self, pod):
        """What the daemon of a pod is given: the ConfigMap that is mounted where its arguments say."""
        daemon = self.container(pod, "terraced")
        self.assertEqual(daemon["args"][0], "--config")
        place, _, name = daemon["args"][1].rpartition("/")
        source = self.source(pod, daemon, place)["configMap"]["name"]
        maps = {one["metadata"]["name"]: one for (_, kind), one in self.documents.items() if kind == "ConfigMap"}
        return maps[source]["data"][name]

    def source(self, pod, container, place):
        """The volume that is mounted at `place`."""
        mount = next(one for one in container["volumeMounts"] if one["mountPath"] == place)
        return next(one for one in pod["volumes"] if one["name"] == mount["name"])

    def test_configurations_are_terraceds_and_fit(self):
        for name, pod in (("sidecar", self.sidecar), ("daemonset", self.node)):
            with self.subTest(name):
                daemon = self.container(pod, "terraced")
                resources = daemon["resources"]
                # What is promised is what may be used: arenas are touched as a whole.
                self.assertEqual(resources["limits"]["memory"], resources["requests"]["memory"])
                stop_s = pod["terminationGracePeriodSeconds"]
                options = self.check_config(self.config_text(pod), size_bytes(resources["limits"]["memory"]), stop_s)
                data = self.source(pod, daemon, options["data_dir"])
                if "emptyDir" in data:
                    for room in (data["emptyDir"]["sizeLimit"], resources["limits"]["ephemeral-storage"]):
                        self.assertGreater(size_bytes(room), size_bytes(options["disk.capacity"]))
                else:
                    self.assertIn("hostPath", data)
                self.assertNotIn("lifecycle", daemon)
                password = tomllib.loads(self.config_text(pod)).get("redis", {}).get("password_file")
                if password:
                    secret = self.source(pod, daemon, folder(password))["secret"]
                    # The name that the file's first lines say to make it with.
                    self.assertIn(f"{secret['secretName']} --from-file={password.rpartition('/')[2]}=",
                                  (KUBERNETES / f"{name}.yaml").read_text())

    def test_probes_reach_what_answers(self):
        for name, pod in (("sidecar", self.sidecar), ("daemonset", self.node)):
            with self.subTest(name):
                daemon = self.container(pod, "terraced")
                listen = tomllib.loads(self.config_text(pod)).get("http", {}).get("listen", "127.0.0.1:9470")
                for kind in PROBES:
                    probe = daemon[kind]
                    wanted = "readyz" if kind == "readinessProbe" else "healthz"
                    if "exec" in probe:
                        self.assertEqual(probe["exec"]["command"], ["terrace-probe", wanted])
                    else:
                        # The kubelet comes to the pod's address.
                        self.assertFalse(is_loopback(listen))
                        self.assertEqual(probe["httpGet"]["path"], "/" + wanted)
                        port = next(one for one in daemon["ports"] if one["name"] == probe["httpGet"]["port"])
                        self.assertEqual(str(port["containerPort"]), listen.rpartition(":")[2])
                # A start that recovers much must not be ended for it.
                startup = daemon["startupProbe"]
                self.assertGreaterEqual(startup["periodSeconds"] * startup["failureThreshold"], 600)

    def test_what_is_reachable_is_reachable_for_few(self):
        policy = self.documents["daemonset", "NetworkPolicy"]["spec"]
        labels = self.documents["daemonset", "DaemonSet"]["spec"]["template"]["metadata"]["labels"]
        self.assertEqual(policy["podSelector"]["matchLabels"].items() & labels.items(),
                         policy["podSelector"]["matchLabels"].items())
        (rule,) = policy["ingress"]
        self.assertTrue(rule["from"])

    def test_workers_and_daemons_meet(self):
        sidecar = self.container(self.sidecar, "terraced")
        for daemon_pod, daemon, pod in ((self.sidecar, sidecar, self.sidecar),
                                        (self.node, self.container(self.node, "terraced"), self.node_worker)):
            worker = self.container(pod, "worker")
            wanted = tomllib.loads(self.config_text(daemon_pod))["socket"]
            found = next(one["value"] for one in worker["env"] if one["name"] == "TERRACE_SOCKET")
            self.assertEqual(found, wanted)
            ours, theirs = (self.source(*one, folder(wanted)) for one in ((daemon_pod, daemon), (pod, worker)))
            self.assertEqual(ours, theirs)
            # The socket's group.
            security = pod["securityContext"]
            groups = {security["runAsGroup"], *security.get("supplementalGroups", [])}
            self.assertIn(daemon_pod["securityContext"]["runAsGroup"], groups)

    def test_daemons_see_the_processes_of_workers(self):
        self.assertTrue(self.sidecar["shareProcessNamespace"])
        self.assertTrue(self.node["hostPID"])
        self.assertNotIn("hostPID", self.node_worker)

    def test_nobody_has_more_rights_than_he_needs(self):
        for name, pod in self.pods().items():
            self.assertFalse(pod["automountServiceAccountToken"], name)
            self.assertTrue(pod["securityContext"]["runAsNonRoot"], name)
            self.assertNotEqual(pod["securityContext"]["runAsUser"], 0, name)
            for container in [*pod.get("initContainers", []), *pod["containers"]]:
                self.assertEqual(container["image"], image_of_this_version())
                security = container["securityContext"]
                self.assertFalse(security["allowPrivilegeEscalation"], container["name"])
                self.assertTrue(security["readOnlyRootFilesystem"], container["name"])
                self.assertIn("ALL", security["capabilities"]["drop"], container["name"])
                self.assertIn("memory", container["resources"]["limits"], container["name"])
                self.assertEqual("add" in security["capabilities"], container["name"] == "folders")
        for pod in (self.sidecar, self.node):
            security = pod["securityContext"]
            self.assertEqual((security["runAsUser"], security["runAsGroup"]), user_of_the_image())

    def test_selectors_and_mounts_name_what_is_there(self):
        for (_, kind), document in self.documents.items():
            if kind in ("Deployment", "DaemonSet"):
                spec = document["spec"]
                self.assertLessEqual(spec["selector"]["matchLabels"].items(),
                                     spec["template"]["metadata"]["labels"].items())
        for pod in self.pods().values():
            volumes = {one["name"] for one in pod["volumes"]}
            mounts = {mount["name"] for container in [*pod.get("initContainers", []), *pod["containers"]]
                      for mount in container["volumeMounts"]}
            self.assertEqual(mounts, volumes)


if __name__ == "__main__":
    support.main()
