//! `AdminService`: what operators ask. It changes nothing.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::convert;
use crate::coordinator::Coordinator;
use crate::proto;
use crate::proto::admin_service_server::AdminService;

/// Answers `AdminService` by asking the coordinator.
#[derive(Clone)]
pub struct AdminRpc {
    coordinator: Arc<Coordinator>,
}

impl AdminRpc {
    /// Asks this one.
    pub fn new(coordinator: Arc<Coordinator>) -> AdminRpc {
        AdminRpc { coordinator }
    }
}

#[tonic::async_trait]
impl AdminService for AdminRpc {
    async fn describe_key(
        &self,
        request: Request<proto::DescribeKeyRequest>,
    ) -> Result<Response<proto::DescribeKeyResponse>, Status> {
        let key = convert::describe(request.get_ref())?;
        let known = self.coordinator.describe(&key).await?;
        Ok(Response::new(convert::described(known)))
    }

    async fn list_leases(
        &self,
        request: Request<proto::ListLeasesRequest>,
    ) -> Result<Response<proto::ListLeasesResponse>, Status> {
        let (namespace, page) = convert::leases(request.into_inner())?;
        let all = self.coordinator.leases(namespace.as_deref()).await?;
        Ok(Response::new(convert::lease_page(page, all)))
    }

    async fn list_namespaces(
        &self,
        request: Request<proto::ListNamespacesRequest>,
    ) -> Result<Response<proto::ListNamespacesResponse>, Status> {
        let page = convert::namespaces(request.get_ref())?;
        let all = self.coordinator.namespaces().await?;
        Ok(Response::new(convert::namespace_page(page, all)))
    }

    async fn list_hot_keys(
        &self,
        request: Request<proto::ListHotKeysRequest>,
    ) -> Result<Response<proto::ListHotKeysResponse>, Status> {
        let count = convert::hot_keys(request.get_ref())?;
        let keys = self.coordinator.hot_keys(&request.get_ref().namespace, count)?;
        Ok(Response::new(convert::hottest(keys)))
    }
}
