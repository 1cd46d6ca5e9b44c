//! Why something did not work, in words that say what to do.

use std::fmt;
use std::sync::Arc;

use ::redis::{ErrorKind, RedisError};

use super::access::Place;
use crate::store::redis::condition::{Condition, Verdict};

/// What went wrong with a server, for people and for the counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub condition: Condition,
    pub text: Arc<str>,
    /// The server itself said so: the connection is good.
    pub answered: bool,
}

impl Trouble {
    pub fn new(condition: Condition, text: impl Into<Arc<str>>) -> Trouble {
        Trouble {
            condition,
            text: text.into(),
            answered: false,
        }
    }

    /// Of an error that a server sent, or that came of a connection to it.
    pub fn of(place: &Place, error: &RedisError, secured: bool) -> Trouble {
        let Verdict { condition, .. } = Verdict::of(error);
        let answered = matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension);
        let text = match remedy(error, condition, secured) {
            Some(remedy) => format!("{place}: {}; {remedy}", plain(error)),
            None => format!("{place}: {}", plain(error)),
        };
        Trouble {
            condition,
            text: text.into(),
            answered,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The error without the library's own names.
pub(super) fn plain(error: &RedisError) -> String {
    match (error.kind(), error.code(), error.detail()) {
        (_, Some("NOAUTH"), _) => "NOAUTH: it wants a password (in the URL: redis://:PASSWORD@HOST)".to_owned(),
        (ErrorKind::Server(_) | ErrorKind::Extension, Some(code), Some(detail)) => {
            // "ERR unknown command 'X', with args beginning with: …": the arguments are ours.
            let detail = detail.split(", with args beginning").next().unwrap_or_default();
            format!("{code} {}", detail.trim_end_matches([' ', '.']))
        }
        (ErrorKind::Server(_) | ErrorKind::Extension, Some(code), None) => code.to_owned(),
        (ErrorKind::Parse, ..) => "what answers there does not speak Redis' protocol".to_owned(),
        (ErrorKind::Io, ..) if error.is_timeout() => "it does not answer in time".to_owned(),
        _ => error.to_string(),
    }
}

/// What may help, where the error alone does not say it.
fn remedy(error: &RedisError, condition: Condition, secured: bool) -> Option<&'static str> {
    let detail = error.detail().unwrap_or_default();
    let text = error.to_string();
    if error.kind() == ErrorKind::RESP3NotSupported {
        return Some("Redis 6.2 or later is needed");
    }
    if error.is_connection_refusal() {
        return Some("is Redis running there?");
    }
    if error.code() == Some("NOAUTH") {
        return Some("give the password by --store-password-file or DROVER_STORE_PASSWORD");
    }
    if text.contains("UnknownIssuer") || text.contains("BadSignature") {
        return Some("--store-ca-file has to name the authority that signed the server's certificate");
    }
    if text.contains("NotValidForName") {
        return Some("the URL has to call the server by a name that is in its certificate");
    }
    if text.contains("CertificateRequired") {
        return Some("the server wants a certificate of drover's own: --store-cert-file and --store-key-file");
    }
    if text.contains("InvalidContentType") || text.contains("InvalidMessage") {
        return Some("it does not speak TLS; write redis instead of rediss, or give its TLS port");
    }
    if detail.contains("cluster support disabled") {
        return Some("it is no Cluster; write redis:// instead of redis+cluster://");
    }
    if detail.contains("'DEL'") || detail.contains("'del'") {
        return Some("it is a sentinel; write redis+sentinel://HOST:PORT/MASTER, with the name of the primary");
    }
    if detail.contains("'SENTINEL'") || detail.contains("'sentinel'") {
        return Some("it is no sentinel; write redis:// instead of redis+sentinel://");
    }
    if detail.contains("SELECT is not allowed in cluster mode") {
        return Some("it is a node of a Cluster; write redis+cluster:// and no database");
    }
    if detail.contains("DB index is out of range") {
        return Some("the number after the / of the URL has to be below the server's setting \"databases\"");
    }
    if error.code() == Some("MOVED") {
        return Some("it is a node of a Cluster; write redis+cluster://");
    }
    if secured && error.is_timeout() {
        return Some("if it does not speak TLS, write redis instead of rediss");
    }
    match condition {
        Condition::Forbidden if error.code() == Some("WRONGPASS") => {
            Some("look at --store-user, and at --store-password-file or DROVER_STORE_PASSWORD")
        }
        Condition::Forbidden => {
            Some("the user needs all commands on keys that begin with the prefix, as ~{PREFIX.* +@all -@admin gives")
        }
        Condition::Broken if !secured && error.is_connection_dropped() => {
            Some("if it wants TLS, write rediss instead of redis")
        }
        Condition::ReadOnly => Some("it is a replica; drover needs the primary's address, or the sentinels'"),
        Condition::CannotSave => Some("see its log and its disk, or stop-writes-on-bgsave-error"),
        _ => None,
    }
}
