//! Whatever bytes a key may have, it is itself and no other.

use drover::proto::{AcquireRebuildRequest, ReportValueRequest};

use crate::support::{Drover, ask, drop_keys, report, text};

#[tokio::test]
async fn keys_with_any_characters_do_not_meet_in_any_namespace() {
    let drover = Drover::start().await;
    let longest = "\u{1F980}".repeat(256);
    let keys = [
        "/",
        "//",
        "a",
        "a/b",
        "b",
        "/b",
        "a\0b",
        "a\0",
        "\0",
        "\n",
        "a\r\n",
        " a",
        "a ",
        "A",
        "é",
        "e\u{301}",
        "%2F",
        "{a}b",
        "\u{FEFF}a",
        "*",
        &longest,
    ];
    let namespaces = ["a", "a.b", "a-b", "0"];
    let place = |namespace: &str, key: &str| AcquireRebuildRequest {
        namespace: namespace.to_owned(),
        ..ask(key)
    };
    for namespace in namespaces {
        for key in keys {
            let rebuild = drover.granted(place(namespace, key)).await;
            let value = format!("{namespace}|{key}");
            let filled = ReportValueRequest {
                namespace: namespace.to_owned(),
                ..report(key, &rebuild, &value)
            };
            drover.accept(filled).await;
        }
    }
    for namespace in namespaces {
        for key in keys {
            assert_eq!(
                text(&drover.hit(place(namespace, key)).await),
                format!("{namespace}|{key}")
            );
        }
    }
    let only = drover::proto::InvalidateRequest {
        namespace: "a".to_owned(),
        ..drop_keys(&["a\0"])
    };
    drover.invalidate(only).await;
    for namespace in namespaces {
        for key in keys.into_iter().filter(|key| (namespace, *key) != ("a", "a\0")) {
            drover.hit(place(namespace, key)).await;
        }
    }
    drover.granted(place("a", "a\0")).await;
    drover.end().await;
}
