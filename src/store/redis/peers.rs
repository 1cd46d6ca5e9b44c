//! stub
use crate::fanout::*;
use crate::store::Answer;
use std::sync::Arc;
use tokio_util::task::TaskTracker;
pub struct Fleet;
impl Fleet {
    pub fn new(_b: Arc<super::tending::RedisBoard>, _t: TaskTracker) -> Arc<Fleet> {
        Arc::new(Fleet)
    }
    pub async fn run(self: Arc<Self>) {}
    pub fn heard(&self, _m: &[u8]) {}
}
impl Peers for Fleet {
    fn ask(&self, _q: Question) -> Answer<'_, Vec<Barrier>> {
        Box::pin(async { Ok(vec![]) })
    }
    fn answer_for(&self, _r: Arc<dyn Respondent>) {}
}
