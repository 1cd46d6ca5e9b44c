//! Each form of the URL, credentials, certificates; and what is told where something is wrong with them.

use std::io::Write as _;
use std::path::PathBuf;

use drover::config::{RedisSettings, Secret};
use drover::store::redis::link::Link;
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::Linked;
use crate::support::{Certificates, Cluster, Sentinels, Server};

fn settings(url: &str) -> RedisSettings {
    RedisSettings::at(url).expect("a good URL")
}

async fn round_trip(linked: Linked, partition: u16) {
    assert_eq!(linked.put(partition, "1").await.as_deref(), Ok("done"));
    assert_eq!(linked.get::<String>(partition).await.as_deref(), Ok("1"));
    let cold = linked
        .link
        .cold(partition, ::redis::cmd("GET").arg(super::key(partition)).take())
        .await;
    assert_eq!(cold, Ok(::redis::Value::BulkString(b"1".to_vec())));
    let mut own = linked.link.dedicated(partition).await.expect("a connection");
    let ping = own.run(&::redis::cmd("PING"), std::time::Duration::from_secs(1)).await;
    assert_eq!(ping, Ok(::redis::Value::SimpleString("PONG".to_owned())));
    linked.end().await;
}

#[tokio::test]
async fn one_server_by_its_address_and_its_socket_in_the_database_that_the_url_says() {
    let server = Server::start();
    round_trip(Linked::to(&format!("{}/3", server.url())), 0).await;
    let socket = server.socket().display().to_string();
    round_trip(Linked::to(&format!("redis+unix://{socket}?db=4")), 0).await;
    let keyspace: String = server.ask(&["INFO", "keyspace"]);
    assert!(keyspace.contains("db3:") && keyspace.contains("db4:"), "{keyspace}");
}

#[tokio::test]
async fn a_user_and_a_password_from_each_source() {
    let server = Server::with(&["requirepass s3cret", "user app on >pass ~{drover.* +@all -@admin"]);
    let url = server.url();
    round_trip(Linked::to(&url.replace("//", "//:s3cret@")), 0).await;
    round_trip(Linked::to(&url.replace("//", "//app:pass@")), 0).await;
    let mut file = NamedTempFile::new().expect("a temporary file");
    writeln!(file, "pass").expect("written");
    let from_file = RedisSettings {
        user: Some("app".to_owned()),
        password_file: Some(file.path().to_owned()),
        password: Some(Secret::new("not this one")),
        ..settings(&url)
    };
    round_trip(Linked::with(from_file), 0).await;
    let from_environment = RedisSettings {
        password: Some(Secret::new("s3cret")),
        ..settings(&url.replace("//", "//:wrong@"))
    };
    round_trip(Linked::with(from_environment), 0).await;
}

#[tokio::test]
async fn by_tls_with_a_private_authority_and_a_certificate_of_drovers_own() {
    let certificates = Certificates::make();
    let server = Server::tls(&certificates, true);
    let file = |name: &str| Some(certificates.file(name));
    let full = RedisSettings {
        ca_file: file("ca.pem"),
        cert_file: file("client.pem"),
        key_file: file("client.key"),
        ..settings(&server.url().replace("redis:", "rediss:"))
    };
    round_trip(Linked::with(full), 0).await;
}

#[tokio::test]
async fn the_primary_that_the_sentinels_name() {
    let sentinels = Sentinels::start(1);
    round_trip(Linked::to(&sentinels.url()), 0).await;
}

#[tokio::test]
async fn sentinels_and_servers_with_a_password() {
    let sentinels = Sentinels::with(1, &["requirepass s3cret"], &["requirepass s3cret"]);
    round_trip(Linked::to(&sentinels.url().replace("//", "//:s3cret@")), 0).await;
    let without = Sentinels::with(1, &["requirepass s3cret"], &[]);
    round_trip(Linked::to(&without.url().replace("//", "//:s3cret@")), 0).await;
}

#[tokio::test]
async fn a_cluster_of_which_one_node_is_named() {
    let cluster = Cluster::start(0);
    let url = format!("redis+cluster://{}", cluster.primaries[1].address());
    for partition in 0..16 {
        round_trip(Linked::to(&url), partition).await;
    }
    assert_eq!(Linked::to(&url).link.partitions(), 16);
}

#[tokio::test]
async fn what_does_not_work_is_told_with_its_cause_and_its_remedy() {
    let (certificates, strangers) = (Certificates::make(), Certificates::make());
    let (open, closed) = (Server::start(), Server::with(&["requirepass s3cret"]));
    let secured = Server::tls(&certificates, false);
    let mutual = Server::tls(&certificates, true);
    let sentinels = Sentinels::start(1);
    let cluster = Cluster::start(0);
    let tls = |server: &Server| server.url().replace("redis:", "rediss:");
    let trusting = |url: String, certificates: &Certificates| RedisSettings {
        ca_file: Some(certificates.file("ca.pem")),
        ..settings(&url)
    };
    let cases = [
        (
            settings("redis://127.0.0.1:1"),
            "Connection refused",
            "is Redis running there?",
        ),
        (settings("redis://no-such-host.invalid"), "failed to lookup address", ""),
        (
            settings(&closed.url()),
            "NOAUTH",
            "give the password by --store-password-file or DROVER_STORE_PASSWORD",
        ),
        (
            settings(&closed.url().replace("//", "//:wrong@")),
            "WRONGPASS",
            "look at --store-user, and at --store-password-file or DROVER_STORE_PASSWORD",
        ),
        (settings(&format!("{}/99", open.url())), "DB index is out of range", ""),
        (
            trusting(tls(&secured), &strangers),
            "invalid peer certificate",
            "--store-ca-file has to name the authority",
        ),
        (
            settings(&tls(&secured)),
            "invalid peer certificate",
            "--store-ca-file has to name the authority",
        ),
        (
            trusting(tls(&mutual), &certificates),
            "CertificateRequired",
            "--store-cert-file and --store-key-file",
        ),
        (trusting(tls(&open), &certificates), "", "write redis instead of rediss"),
        (
            settings(&secured.url()),
            "",
            "if it wants TLS, write rediss instead of redis",
        ),
        (
            settings(&format!("redis+sentinel://{}/other", sentinels.sentinels[0].address())),
            "it knows no primary called other",
            "the name stands after the / of the URL",
        ),
        (
            settings(&format!("redis+sentinel://{}/drover", open.address())),
            "unknown command 'SENTINEL'",
            "it is no sentinel",
        ),
        (
            settings(&sentinels.sentinels[0].url()),
            "unknown command 'DEL'",
            "it is a sentinel",
        ),
        (
            settings("redis+sentinel://127.0.0.1:1/drover"),
            "Connection refused",
            "",
        ),
        (
            settings(&format!("redis+cluster://{}", open.address())),
            "cluster support disabled",
            "it is no Cluster; write redis://",
        ),
        (settings("redis+cluster://127.0.0.1:1"), "Connection refused", ""),
    ];
    for (settings, cause, remedy) in cases {
        let linked = Linked::with(settings);
        let reason = linked.refused_with(0, &[cause, remedy]).await;
        println!("{reason}");
        assert!(!reason.contains("wrong"), "a password: {reason}");
    }
    // Two of the three do not have the slot.
    let told = |node: &Server| {
        let linked = Linked::to(&node.url());
        async move {
            let answer = linked.put(0, "1").await;
            let told = "it is a node of a Cluster; write redis+cluster://";
            answer.err().is_some_and(|error| error.to_string().contains(told))
        }
    };
    let mut count = 0;
    for node in &cluster.primaries {
        count += u32::from(told(node).await);
    }
    assert_eq!(count, 2);
}

#[tokio::test]
async fn what_is_no_redis_at_all_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let linked = Linked::to(&format!("redis://{address}"));
    linked.refused_with(0, &["does not speak Redis' protocol"]).await;
}

#[tokio::test]
async fn settings_that_no_waiting_mends_are_refused_at_once() {
    let certificates = Certificates::make();
    let empty = NamedTempFile::new().expect("a temporary file");
    let here = |file: &str| Some(certificates.file(file));
    let nowhere = || Some(PathBuf::from("/nowhere/at/all"));
    let plain = || settings("redis://cache");
    let secured = || settings("rediss://cache");
    let cases = [
        (
            RedisSettings {
                password_file: nowhere(),
                ..plain()
            },
            "--store-password-file /nowhere/at/all: No such file",
        ),
        (
            RedisSettings {
                password_file: Some(empty.path().to_owned()),
                ..plain()
            },
            "it is empty; write the password into it",
        ),
        (
            RedisSettings {
                ca_file: here("ca.pem"),
                ..plain()
            },
            "--store-ca-file is for TLS, and --store redis://cache:6379 is without it; write rediss",
        ),
        (
            RedisSettings {
                ca_file: nowhere(),
                ..secured()
            },
            "--store-ca-file /nowhere/at/all: No such file",
        ),
        (
            RedisSettings {
                ca_file: here("server.key"),
                ..secured()
            },
            "server.key: there is no certificate in it",
        ),
        (
            RedisSettings {
                cert_file: here("client.pem"),
                ..secured()
            },
            "--store-cert-file is given without --store-key-file",
        ),
        (
            RedisSettings {
                cert_file: here("client.pem"),
                key_file: here("client.pem"),
                ..secured()
            },
            "client.pem: there is no private key in it",
        ),
    ];
    for (settings, told) in cases {
        let refused = Link::new(&settings).map(|_| ()).expect_err(told).to_string();
        assert!(refused.contains(told), "{refused}");
    }
}

#[test]
fn nothing_that_is_printed_holds_a_password() {
    let url = "redis://user:p%40ss:w0rd@cache";
    let settings = RedisSettings {
        password: Some(Secret::new("an0ther")),
        ..settings(url)
    };
    let link = Link::new(&settings).expect("good settings");
    for printed in [format!("{settings:?}"), format!("{link:?}"), settings.url.to_string()] {
        for secret in ["w0rd", "an0ther", "p@ss", "p%40ss"] {
            assert!(!printed.contains(secret), "{secret} in {printed}");
        }
    }
    assert_eq!(settings.url.to_string(), "redis://user:***@cache:6379");
}
