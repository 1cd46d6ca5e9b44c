//! What all scenarios of a run share: the drover that they talk to, and where progress is shown.

use std::sync::Arc;
use std::time::Duration;

use crate::lab::origin::Origin;
use crate::lab::own_server;
use crate::lab::progress::Bars;
use crate::lab::strategy::client::Client;
use crate::lab::strategy::drover::Drover;
use crate::lab::strategy::recipe::Recipe;
use crate::lab::strategy::{Kind, Strategy};

/// What all scenarios of a run share.
#[derive(Debug)]
pub struct World {
    /// Connected and warm; `None` when drover takes no part.
    pub client: Option<Arc<Client>>,
    /// The drover is the lab's own: beside the lab's namespace it has others, whose policies scenarios compare.
    pub is_own: bool,
    /// Where progress is shown.
    pub bars: Bars,
}

impl World {
    /// A strategy over a new cache and this origin.
    pub fn strategy(&self, kind: Kind, origin: &Arc<Origin>, lives: Duration) -> anyhow::Result<Strategy> {
        let recipe = |early, locked| Strategy::Recipe(Recipe::new(early, locked, lives, origin.clone()));
        Ok(match kind {
            Kind::None => recipe(false, false),
            Kind::Lock => recipe(false, true),
            Kind::Xfetch => recipe(true, false),
            Kind::XfetchLock => recipe(true, true),
            Kind::Drover => Strategy::Drover(Drover::new(self.client()?.clone(), origin.clone(), lives)),
        })
    }

    /// drover with the policy of one of the lab's own namespaces; on a drover that is not its own, with that of the lab's namespace there.
    pub fn drover(&self, which: &str, origin: &Arc<Origin>, lives: Duration) -> anyhow::Result<Strategy> {
        let client = self.client_beside(which)?;
        Ok(Strategy::Drover(Drover::new(client, origin.clone(), lives)))
    }

    /// As [`World::drover`].
    pub fn client_beside(&self, which: &str) -> anyhow::Result<Arc<Client>> {
        let client = self.client()?;
        if !self.is_own {
            return Ok(client.clone());
        }
        let namespace = own_server::beside(client.namespace(), which);
        Ok(Arc::new(client.beside(&namespace, own_server::LONG)))
    }

    /// The connection to drover.
    pub fn client(&self) -> anyhow::Result<&Arc<Client>> {
        self.client
            .as_ref()
            .ok_or_else(|| anyhow::anyhow!("the strategy `drover` needs a drover to talk to"))
    }

    /// A key of this run's own.
    pub fn key(&self, name: &str) -> String {
        format!(
            "{}/{name}",
            self.client.as_ref().map_or("lab", |client| client.run_id())
        )
    }
}
