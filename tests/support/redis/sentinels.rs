//! A primary, its replica, and the sentinels that watch them.

use super::{Server, wait_until};

/// What the sentinels call the primary.
pub const MASTER: &str = "drover";

/// It ends with the value.
pub struct Sentinels {
    /// The primary at the start, then its replica.
    pub servers: [Server; 2],
    pub sentinels: Vec<Server>,
}

impl Sentinels {
    /// So many sentinels, of which most have to agree. A primary that does not answer for half a second is down.
    pub fn start(count: usize) -> Sentinels {
        Sentinels::with(count, &[], &[])
    }

    /// With more lines in the configuration of the servers and of the sentinels; `requirepass` of the servers is told to the sentinels.
    pub fn with(count: usize, lines: &[&str], sentinel_lines: &[&str]) -> Sentinels {
        let primary = Server::with(lines);
        let following = format!("replicaof 127.0.0.1 {}", primary.port());
        let password = lines.iter().find_map(|line| line.strip_prefix("requirepass "));
        let authenticated = password.map(|password| format!("masterauth {password}"));
        let mut more = lines.to_vec();
        more.push(&following);
        more.extend(authenticated.as_deref());
        let replica = Server::with(&more);
        wait_until("the replica follows", || replica.info("master_link_status") == "up");
        let quorum = count / 2 + 1;
        let sentinel = || {
            let mut own = vec![
                format!("sentinel monitor {MASTER} 127.0.0.1 {} {quorum}", primary.port()),
                format!("sentinel down-after-milliseconds {MASTER} 500"),
                format!("sentinel failover-timeout {MASTER} 3000"),
            ];
            own.extend(password.map(|password| format!("sentinel auth-pass {MASTER} {password}")));
            own.extend(sentinel_lines.iter().map(|line| (*line).to_owned()));
            own
        };
        let sentinels: Vec<Server> = (0..count).map(|_| Server::on_free_port(|_| sentinel(), true)).collect();
        let known =
            |sentinel: &Server, what: &str| sentinel.ask::<Vec<::redis::Value>>(&["SENTINEL", what, MASTER]).len();
        wait_until("the sentinels know each other and the replica", || {
            sentinels
                .iter()
                .all(|one| known(one, "REPLICAS") == 1 && known(one, "SENTINELS") == count - 1)
        });
        Sentinels {
            servers: [primary, replica],
            sentinels,
        }
    }

    /// `redis+sentinel://HOST:PORT,…/drover`
    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.sentinels.iter().map(Server::address).collect();
        format!("redis+sentinel://{}/{MASTER}", addresses.join(","))
    }

    /// After how long without an answer a server counts as down, in milliseconds.
    pub fn patience(&self, millis: u64) {
        for sentinel in &self.sentinels {
            sentinel.ask::<()>(&[
                "SENTINEL",
                "SET",
                MASTER,
                "down-after-milliseconds",
                &millis.to_string(),
            ]);
        }
    }

    /// Has the other server made the primary.
    pub fn fail_over(&self) {
        // It refuses while it has not heard enough of the replica yet.
        wait_until("a sentinel agrees to a failover", || {
            self.sentinels[0]
                .command::<()>(&["SENTINEL", "FAILOVER", MASTER])
                .is_ok()
        });
    }
}
