//! The bench's cases on Redis, each as short as can be: that they measure what they say.

use std::process::Command;

use serde_json::Value;

#[test]
fn the_bench_measures_replicas_beside_a_bare_service_that_makes_the_same_trips() {
    let few = [
        "--pairs",
        "1",
        "--calls",
        "100",
        "--waiters",
        "60",
        "--herd-connections",
        "6",
    ];
    let output = Command::new(env!("CARGO_BIN_EXE_drover"))
        .args(["bench", "--json", "--case", "redis"])
        .args(few)
        .output()
        .expect("the bench runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");

    let mut figures = Vec::new();
    for case in report["cases"].as_array().expect("cases") {
        for figure in case["figures"].as_array().expect("figures") {
            let name = format!(
                "({}) {}",
                case["case"].as_str().unwrap_or_default(),
                figure["name"].as_str().unwrap_or_default()
            );
            figures.push((
                name,
                figure["drover"]["median"].as_f64(),
                figure["bare"]["median"].as_f64(),
            ));
        }
    }
    let of = |name: &str| {
        let found = figures.iter().find(|(known, ..)| known == name);
        let (_, drover, bare) = found.unwrap_or_else(|| panic!("no figure {name}: {figures:?}"));
        (drover.expect("a figure of drover's"), bare.unwrap_or_default())
    };
    for setting in ["1 replica", "2 replicas", "2, watched"] {
        let (drover, bare) = of(&format!("(h) {setting}: script calls a call"));
        // Beside the calls, each replica looks after its store every second or so.
        assert!((1.0..1.2).contains(&bare), "{setting}: {bare}");
        assert!((1.0..1.2).contains(&drover), "{setting}: {drover}");
    }
    assert!(of("(i) p50").0 > 0.0);
    assert_eq!(of("(j) rebuilds").0, 1.0);
    let one = of("(k) 1 partition: script calls a call").0;
    let many = of("(k) 16 partitions: script calls a call").0;
    assert!((15.5..16.5).contains(&(many / one)), "{one} and {many}");
}
