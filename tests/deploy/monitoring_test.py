"""Alerts and dashboard: that Prometheus takes them, that they fire when they should, and that what they ask for is what
a real daemon shows."""
import fcntl
import json
import re
import unittest
import urllib.request

import support

try:
    import yaml
except ImportError:
    yaml = None

PROMETHEUS = support.DEPLOY / "prometheus"
DASHBOARD = support.DEPLOY / "grafana" / "terrace.json"
HERE = support.ROOT / "tests" / "deploy"
# What Prometheus adds to what a daemon shows.
ADDED_LABELS = {"job", "instance"}
ADDED_METRICS = {"up": {}}
GRID_COLUMNS = 24
ANSWER_TIMEOUT_S = 10


def exposed_by(daemon):
    """Each metric with its labels and the values that they have."""
    with urllib.request.urlopen(f"http://{daemon.http_address()}/metrics", timeout=ANSWER_TIMEOUT_S) as answer:
        text = answer.read().decode()
    metrics = {}
    for name, labels in re.findall(r"^([a-z_]+)(?:\{(.*)\})? \S+$", text, re.M):
        values = metrics.setdefault(name, {})
        for label, value in re.findall(r'(\w+)="([^"]*)"', labels):
            values.setdefault(label, set()).add(value)
    return metrics


def selectors(expression):
    """(metric, matchers) of all that a query asks for; a matcher is (label, operator, value)."""
    for name, matchers in re.findall(r"\b((?:terrace|process|instance:terrace|up)[a-z0-9_:]*)\b(?:\{([^}]*)\})?",
                                     expression):
        yield name, re.findall(r'(\w+)\s*(=~|!=|!~|=)\s*"([^"]*)"', matchers)


def what_is_unknown(expression, metrics):
    """What a query asks for that no daemon shows."""
    found = list(selectors(expression))
    if not found:
        yield f"nothing of a daemon in {expression}"
    for name, matchers in found:
        if name not in metrics:
            yield f"{name} is no metric"
            continue
        for label, operator, value in matchers:
            if label in ADDED_LABELS:
                continue
            known = metrics[name].get(label, set())
            wanted = set(value.split("|")) if operator in ("=~", "!~") else {value}
            if not wanted <= known:
                yield f"{name}: {label} is one of {sorted(known)}, not {value}"


class Monitoring(support.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = support.make_temp_dir(cls.addClassCleanup)
        # With all that has metrics of its own: a Redis (which need not be there), a tenant, a host tier.
        cls.daemon = support.Daemon(directory, "redis.endpoints=127.0.0.1:1", "tenants.some.device=16MiB",
                                    "host.capacity=64MiB")
        cls.addClassCleanup(cls.daemon.close)
        cls.metrics = {**exposed_by(cls.daemon), **ADDED_METRICS}


@unittest.skipIf(yaml is None, "not installed: python3-yaml")
class Alerts(Monitoring):
    def setUp(self):
        (self.rules,) = support.yaml_documents(PROMETHEUS / "terrace_alerts.yml")
        self.all = [rule for group in self.rules["groups"] for rule in group["rules"]]
        self.alerts = [rule for rule in self.all if "alert" in rule]
        self.recorded = {rule["record"]: {} for rule in self.all if "record" in rule}

    def test_ask_for_what_a_daemon_shows(self):
        for rule in self.all:
            self.assertEqual(list(what_is_unknown(rule["expr"], {**self.metrics, **self.recorded})), [], rule)

    def test_say_how_bad_and_what_it_is(self):
        for alert in self.alerts:
            self.assertIn(alert["labels"]["severity"], ("critical", "warning", "info"), alert)
            self.assertTrue(alert["annotations"]["summary"], alert)

    def test_each_is_tried_both_ways(self):
        fired, silent = set(), set()
        for file in HERE.glob("terrace_*_test.yml"):
            (document,) = support.yaml_documents(file)
            for case in (case for test in document["tests"] for case in test["alert_rule_test"]):
                (fired if case["exp_alerts"] else silent).add(case["alertname"])
        names = {alert["alert"] for alert in self.alerts}
        self.assertEqual(fired, names)
        # Of that one a second daemon is not named beside the first.
        self.assertEqual(names - silent, {"TerraceRestarts"})

    @support.needs("promtool")
    def test_prometheus_takes_them(self):
        self.assert_runs("promtool", "check", "rules", PROMETHEUS / "terrace_alerts.yml")
        self.assert_runs("promtool", "check", "config", PROMETHEUS / "prometheus.yml")

    @support.needs("promtool")
    def test_prometheus_in_a_cluster_takes_them(self):
        # Debian's Prometheus is built without the discovery of Kubernetes.
        (config,) = support.yaml_documents(PROMETHEUS / "prometheus_kubernetes.yml")
        for job in config["scrape_configs"]:
            self.assertEqual(job.pop("kubernetes_sd_configs"),
                             [{"role": "pod", "namespaces": {"names": ["terrace"]}}])
            job["static_configs"] = [{"targets": ["127.0.0.1:1"]}]
        config["rule_files"] = [str(PROMETHEUS / name) for name in config["rule_files"]]
        file = self.temp_dir() / "prometheus.yml"
        file.write_text(yaml.safe_dump(config))
        self.assert_runs("promtool", "check", "config", file)

    def test_both_jobs_have_the_name_that_the_alerts_ask_for(self):
        asked = set(re.findall(r'job="(\w+)"', (PROMETHEUS / "terrace_alerts.yml").read_text()))
        for file in ("prometheus.yml", "prometheus_kubernetes.yml"):
            (config,) = support.yaml_documents(PROMETHEUS / file)
            self.assertEqual({job["job_name"] for job in config["scrape_configs"]}, asked, file)

    @support.needs("promtool")
    def test_fire_when_they_must_and_not_else(self):
        self.assert_runs("promtool", "test", "rules", *sorted(HERE.glob("terrace_*_test.yml")))

    def test_a_daemon_without_its_device_tier_looks_as_the_alert_expects(self):
        directory = self.temp_dir()
        # Somebody holds an arena of an earlier daemon.
        with open(directory / "d.sock.arena-earlier", "w") as claim:
            claim.write("67108864\n")
            claim.flush()
            fcntl.flock(claim, fcntl.LOCK_EX)
            daemon = support.Daemon(directory, "device.overlap=0")
            try:
                metrics = exposed_by(daemon)
                self.assertNotIn("device", metrics["terrace_tier_capacity_bytes"]["tier"])
                self.assertIn("device", self.metrics["terrace_tier_capacity_bytes"]["tier"])
            finally:
                daemon.close()


class Dashboard(Monitoring):
    def setUp(self):
        self.dashboard = json.loads(DASHBOARD.read_text())
        self.panels = [panel for panel in self.dashboard["panels"] if panel["type"] != "row"]
        self.queries = [(panel["title"], target["expr"]) for panel in self.panels for target in panel["targets"]]

    def test_every_panel_asks_for_what_a_daemon_shows(self):
        for title, query in self.queries:
            # Which daemons is a choice of who looks.
            self.assertEqual(list(what_is_unknown(query, self.metrics)), [], title)
            self.assertEqual(query.count('instance=~"$instance"'), len(list(selectors(query))), title)

    @support.needs("promtool")
    def test_every_query_parses(self):
        queries = [re.sub(r"\$__rate_interval", "5m", query).replace("$instance", ".*") for _, query in self.queries]
        self.assertFalse([query for query in queries if "$" in query])
        rules = {"groups": [{"name": "panels", "rules": [
            {"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]}]}
        file = self.temp_dir() / "panels.yml"
        file.write_text(json.dumps(rules))  # which is YAML
        self.assert_runs("promtool", "check", "rules", file)

    def test_every_panel_has_its_place(self):
        ids = [panel["id"] for panel in self.dashboard["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        taken = set()
        for panel in self.dashboard["panels"]:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            self.assertTrue(cells.isdisjoint(taken), panel["title"])
            self.assertLessEqual(at["x"] + at["w"], GRID_COLUMNS, panel["title"])
            taken |= cells
        for panel in self.panels:
            self.assertTrue(panel["title"] and panel["description"] and panel["targets"], panel["title"])
            self.assertIn("unit", panel["fieldConfig"]["defaults"], panel["title"])
            for target in panel["targets"]:
                self.assertEqual(target["datasource"]["uid"], "${datasource}", panel["title"])
            letters = [target["refId"] for target in panel["targets"]]
            self.assertEqual(len(letters), len(set(letters)), panel["title"])

    def test_variables_are_those_that_are_used(self):
        text = json.dumps(self.dashboard)
        names = {variable["name"] for variable in self.dashboard["templating"]["list"]}
        used = set(re.findall(r"\$\{?(\w+)", text)) - {"__rate_interval", "__all"}
        self.assertEqual(used, names)


if __name__ == "__main__":
    support.main()
