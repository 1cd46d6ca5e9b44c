//! Where the four parts meet: load, decide, commit, answer or park.

mod api;

pub use api::{
    Acquire, Acquired, Description, Error, Invalidate, Invalidated, LeaseInfo, MAX_TAGS, NamespaceInfo, Renew, Renewed,
    ReportValue, Reported,
};

mod stub; // MERGE: delete, and the file
pub use stub::Coordinator; // MERGE: delete
