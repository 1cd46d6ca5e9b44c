"""The chart, rendered by the real helm and looked at from outside. `helm/check` installs what this needs."""

import json
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import tomllib
import unittest

import kubernetes_validate
import trustme
import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHART = ROOT / "helm/drover"
HELM = ROOT / "target/tools/bin/helm"
DROVER = ROOT / "target/debug/drover"
# The oldest that Chart.yaml allows, and the newest whose schemas there are.
KUBERNETES = ["1.27.0", "1.37.0"]
GOOD = sorted(CHART.glob("ci/*-values.yaml"))
REFUSED = sorted(CHART.glob("ci/refused/*.yaml"))
URL = "store.url=redis://redis:6379"
AUTHORITY = trustme.CA()
CERTIFICATE = AUTHORITY.issue_cert("drover.example")


def helm(*arguments, chart=CHART, release="drover", kubernetes=KUBERNETES[-1]):
    command = [HELM, "template", release, chart, "--namespace", "caching", "--kube-version", kubernetes, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def rendered(*arguments, **options):
    done = helm(*arguments, **options)
    if done.returncode:
        raise AssertionError(done.stderr)
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def the(kind, documents, suffix=""):
    found = [d for d in documents if d["kind"] == kind and d["metadata"]["name"].endswith(suffix)]
    if len(found) != 1:
        raise AssertionError(f"{len(found)} documents of kind {kind}")
    return found[0]


def pod(documents):
    return the("Deployment", documents)["spec"]["template"]["spec"]


def environment(documents):
    return {entry["name"]: entry.get("value") for entry in pod(documents)["containers"][0]["env"]}


def policy_file(documents):
    return the("ConfigMap", documents)["data"]["drover.toml"]


def config_check(text, *options):
    command = [DROVER, "config", "check", "-", *options]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)


def each(test):
    """Runs a test with the documents of every good set of values."""

    def run(self):
        for values in GOOD:
            with self.subTest(values=values.name):
                test(self, rendered("--values", values))

    return run


class Manifests(unittest.TestCase):
    def test_are_valid_for_the_oldest_and_the_newest_kubernetes(self):
        for values in GOOD:
            for version in KUBERNETES:
                for document in rendered("--values", values, kubernetes=version):
                    with self.subTest(values=values.name, kubernetes=version, kind=document["kind"]):
                        kubernetes_validate.validate(document, version, strict=True)

    @each
    def test_fit_the_restricted_pod_security_standard(self, documents):
        spec = pod(documents)
        self.assertTrue(spec["securityContext"]["runAsNonRoot"])
        self.assertNotEqual(spec["securityContext"].get("runAsUser"), 0)
        self.assertEqual(spec["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
        self.assertFalse(spec["automountServiceAccountToken"])
        for container in spec["containers"]:
            context = container["securityContext"]
            self.assertFalse(context["allowPrivilegeEscalation"])
            self.assertTrue(context["readOnlyRootFilesystem"])
            self.assertEqual(context["capabilities"], {"drop": ["ALL"]})
        for volume in spec["volumes"]:
            self.assertIn(next(key for key in volume if key != "name"), ["configMap", "projected"])

    @each
    def test_give_a_shutdown_more_time_than_it_takes(self, documents):
        given = environment(documents)
        delay, timeout = (int(given[name].removesuffix("s")) for name in ["DROVER_DRAIN_DELAY", "DROVER_DRAIN_TIMEOUT"])
        self.assertGreaterEqual(pod(documents)["terminationGracePeriodSeconds"], delay + timeout + 10)

    @each
    def test_ask_the_health_service_for_readiness_and_only_the_process_for_life(self, documents):
        container = pod(documents)["containers"][0]
        self.assertEqual(container["readinessProbe"]["grpc"], {"port": 7117})
        self.assertEqual(container["livenessProbe"]["httpGet"]["path"], "/livez")
        self.assertEqual(container["startupProbe"]["httpGet"]["path"], "/livez")

    @each
    def test_services_find_the_pods_and_their_ports(self, documents):
        template = the("Deployment", documents)["spec"]["template"]
        ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
        services = [document for document in documents if document["kind"] == "Service"]
        self.assertEqual(len(services), 3)
        for service in services:
            self.assertLessEqual(service["spec"]["selector"].items(), template["metadata"]["labels"].items())
            self.assertIn(service["spec"]["ports"][0]["targetPort"], ports)
        headless = the("Service", documents, "-headless")["spec"]
        self.assertEqual((headless["clusterIP"], headless["ports"][0]["port"]), ("None", 7117))

    @each
    def test_each_variable_is_one_that_drover_reads_and_stands_there_once(self, documents):
        help = subprocess.run([DROVER, "serve", "--help"], capture_output=True, text=True, timeout=60).stdout
        known = re.findall(r"\[env: (\w+)\]", help)
        names = [entry["name"] for entry in pod(documents)["containers"][0]["env"]]
        self.assertEqual(len(names), len(set(names)))
        for name in names:
            if name.startswith("DROVER_"):
                self.assertIn(name, known)
        # Kubernetes would add DROVER_PORT and the like for a Service called drover.
        self.assertIs(pod(documents)["enableServiceLinks"], False)

    @each
    def test_each_file_that_a_variable_names_is_mounted(self, documents):
        spec = pod(documents)
        files = set()
        for mount in spec["containers"][0]["volumeMounts"]:
            volume = next(volume for volume in spec["volumes"] if volume["name"] == mount["name"])
            if "configMap" in volume:
                names = the("ConfigMap", documents, volume["configMap"]["name"])["data"]
            else:
                sources = volume["projected"]["sources"]
                names = [item["path"] for source in sources for kind in source.values() for item in kind["items"]]
            files |= {f"{mount['mountPath']}/{name}" for name in names}
        named = {value for value in environment(documents).values() if value and value.startswith("/")}
        self.assertEqual(named, files)

    def test_replicas_are_spread_and_disruptions_bounded(self):
        documents = rendered("--set", URL)
        self.assertEqual(the("Deployment", documents)["spec"]["replicas"], 3)
        self.assertEqual(the("PodDisruptionBudget", documents)["spec"]["maxUnavailable"], 1)
        spread = {rule["topologyKey"] for rule in pod(documents)["topologySpreadConstraints"]}
        self.assertEqual(spread, {"kubernetes.io/hostname", "topology.kubernetes.io/zone"})

    def test_two_replicas_in_memory_never_live_at_once(self):
        deployment = the("Deployment", rendered("--values", CHART / "ci/memory-values.yaml"))["spec"]
        self.assertEqual((deployment["replicas"], deployment["strategy"]), (1, {"type": "Recreate"}))

    def test_the_url_stands_in_the_secret_alone(self):
        done = helm("--set", "store.url=redis://:hunter2@redis:6379")
        self.assertEqual(done.stdout.count("hunter2"), 1)
        secret = the("Secret", yaml.safe_load_all(done.stdout))
        self.assertEqual(secret["stringData"], {"url": "redis://:hunter2@redis:6379"})

    def test_another_url_makes_new_pods_and_another_policy_does_not(self):
        template = lambda *sets: the("Deployment", rendered("--set", URL, *sets))["spec"]["template"]
        self.assertNotEqual(template(), template("--set", "store.url=redis://other:6379"))
        self.assertEqual(template(), template("--set", "policies.defaults.fresh_ttl=1m"))

    def test_long_names_stay_within_what_kubernetes_allows(self):
        for document in rendered("--set", URL, release="r" * 53):
            self.assertLessEqual(len(document["metadata"]["name"]), 63)
            kubernetes_validate.validate(document, KUBERNETES[-1], strict=True)

    def test_work_inside_another_chart(self):
        with tempfile.TemporaryDirectory() as folder:
            parent = pathlib.Path(folder)
            (parent / "charts").mkdir()
            (parent / "charts/drover").symlink_to(CHART)
            (parent / "Chart.yaml").write_text("apiVersion: v2\nname: parent\nversion: 1.0.0\n")
            (parent / "values.yaml").write_text("global: {domain: example}\ndrover: {store: {url: 'redis://redis:6379'}}\n")
            self.assertEqual(the("Deployment", rendered(chart=parent, release="shop"))["metadata"]["name"], "shop-drover")


class Policies(unittest.TestCase):
    @each
    def test_are_a_file_that_drover_takes(self, documents):
        done = config_check(policy_file(documents))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_arrive_as_they_were_written(self):
        values = yaml.safe_load((CHART / "ci/full-values.yaml").read_text())
        found = tomllib.loads(policy_file(rendered("--values", CHART / "ci/full-values.yaml")))
        self.assertEqual(found, values["policies"])

    def test_schema_knows_the_fields_of_drover_and_no_others(self):
        schema = json.loads((CHART / "values.schema.json").read_text())["$defs"]["policy"]["properties"]
        names = {"jitter.spread"}  # printed only instead of the ratio
        printed = config_check("", "--full").stdout.partition("[defaults]")[2].partition("\n\n")[0]
        for name, field in tomllib.loads(printed).items():
            names |= {f"{name}.{inner}" for inner in field} if isinstance(field, dict) else {name}
        known = set()
        for name, field in schema.items():
            known |= {f"{name}.{inner}" for inner in field["properties"]} if "properties" in field else {name}
        self.assertEqual(known, names)


class Values(unittest.TestCase):
    def test_that_are_wrong_are_refused_in_clear_words(self):
        self.assertTrue(REFUSED)
        for values in REFUSED:
            with self.subTest(values=values.name):
                says = values.read_text().splitlines()[0].removeprefix("# says: ")
                done = helm("--values", values)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(says, done.stderr)

    def test_that_are_secret_are_not_shown_when_they_are_refused(self):
        done = helm("--set", "store.url=default:hunter2@redis:6379")
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("hunter2", done.stdout + done.stderr)

    def test_are_all_described_and_nothing_else_is_accepted(self):
        def look(schema, path):
            if schema.get("type") == "object" and "properties" in schema and not path.endswith("[]"):
                self.assertIs(schema.get("additionalProperties"), False, path)
                for name, field in schema["properties"].items():
                    self.assertTrue(field.get("description"), f"{path}.{name} has no description")
                    look(field, f"{path}.{name}")
            for name, field in schema.get("$defs", {}).items():
                look(field, name)

        look(json.loads((CHART / "values.schema.json").read_text()), "")

    def test_are_those_of_the_table_in_the_readme_with_their_defaults(self):
        def flat(values, path=""):
            for name, value in values.items():
                if isinstance(value, dict) and value:
                    yield from flat(value, f"{path}{name}.")
                else:
                    yield f"{path}{name}", value

        rows = re.findall(r"^\| `([A-Za-z.]+)` \| (?:`([^`]*)`)? ?\|", (CHART / "README.md").read_text(), re.M)
        table = {name: yaml.safe_load(default) if default else "" for name, default in rows}
        self.assertEqual(table, dict(flat(yaml.safe_load((CHART / "values.yaml").read_text()))))

    def test_default_to_the_image_of_this_version(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        self.assertEqual(chart["appVersion"], tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]["version"])


class Notes(unittest.TestCase):
    def test_tell_the_next_step(self):
        with tempfile.TemporaryDirectory() as folder:
            chart = pathlib.Path(folder) / "drover"
            subprocess.run(["cp", "-r", CHART, chart], check=True)
            # helm prints notes only beside a cluster; as a document it renders them anywhere.
            lines = (chart / "templates/NOTES.txt").read_text().splitlines()
            document = ["apiVersion: v1", "kind: Notes", "metadata: {name: notes}", "text: |", "  #", *("  " + l for l in lines)]
            (chart / "templates/notes.yaml").write_text("\n".join(document))
            notes = the("Notes", rendered("--set", URL, chart=chart))["text"]
        for part in [
            "kubectl -n caching rollout status deployment/drover",
            "dns:///drover-headless.caching.svc:7117",
            "drover.caching.svc:7117",
            'the Secret "drover-store"',
        ]:
            self.assertIn(part, notes)


class Drover(unittest.TestCase):
    @each
    def test_starts_with_what_a_pod_gets_and_ends_when_told(self, documents):
        with tempfile.TemporaryDirectory() as folder:
            files = {
                "/etc/drover/policies/drover.toml": policy_file(documents),
                "/etc/drover/store/password": "secret\n",
                "/etc/drover/store/ca.crt": AUTHORITY.cert_pem.bytes().decode(),
                "/etc/drover/store/tls.crt": CERTIFICATE.cert_chain_pems[0].bytes().decode(),
                "/etc/drover/store/tls.key": CERTIFICATE.private_key_pem.bytes().decode(),
            }
            given = {name: value for name, value in environment(documents).items() if name.startswith("DROVER_")}
            for name, value in given.items():
                if value in files:
                    path = pathlib.Path(folder) / pathlib.Path(value).name
                    path.write_text(files[value])
                    given[name] = str(path)
            # Nobody listens there: drover starts all the same, and waits for its store.
            given["DROVER_STORE"] = given["DROVER_STORE"] or "rediss://127.0.0.1:1"
            given |= {"DROVER_LISTEN": "127.0.0.1:0", "DROVER_HTTP": "127.0.0.1:0", "DROVER_DRAIN_DELAY": "0s"}
            given["DROVER_OTLP"] = "off"
            _, *arguments = pod(documents)["containers"][0]["command"]
            server = subprocess.Popen(
                [DROVER, *arguments], env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            watchdog = threading.Timer(60, server.kill)
            watchdog.start()
            try:
                line = server.stdout.readline()
                server.send_signal(signal.SIGTERM)
                rest, _ = server.communicate()
                self.assertEqual(server.returncode, 0, line + rest)
            finally:
                watchdog.cancel()
                server.kill()
                server.wait()


if __name__ == "__main__":
    unittest.main()
