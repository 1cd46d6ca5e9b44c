//! MERGE: delete. It stands in for the coordinator so that the adapters compile on their own branch.

use super::*;
use crate::decision::Key;

#[allow(missing_docs)]
pub struct Coordinator;

#[allow(missing_docs, clippy::unused_async)]
impl Coordinator {
    pub async fn acquire(&self, _: Acquire) -> Result<Acquired, Error> {
        Err(Error::Draining)
    }
    pub async fn renew(&self, _: Renew) -> Result<Renewed, Error> {
        Err(Error::Draining)
    }
    pub async fn report(&self, _: ReportValue) -> Result<Reported, Error> {
        Err(Error::Draining)
    }
    pub async fn invalidate(&self, _: Invalidate) -> Result<Invalidated, Error> {
        Err(Error::Draining)
    }
    pub async fn describe(&self, _: &Key) -> Result<Description, Error> {
        Err(Error::Draining)
    }
    pub async fn leases(&self, _: Option<&str>) -> Result<Vec<LeaseInfo>, Error> {
        Err(Error::Draining)
    }
    pub async fn namespaces(&self) -> Result<Vec<NamespaceInfo>, Error> {
        Err(Error::Draining)
    }
}
