//! The policies in force: looked up for every request, replaced as a whole.
//!
//! *Owns* which policy a namespace has. *Never does* I/O; [`reload`](super::reload) decides when to replace.
//!
//! *Invariants.* A reader sees one whole set or another, never a mixture. Looking up takes no lock.
//!
//! *Why not* a lock, a watch channel or a map that is changed in place: a reload may touch many namespaces, and no
//! request may see half of it.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use crate::decision::Policy;

/// Which policy each namespace has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicySet {
    /// Of every namespace that is not listed, unless `strict`.
    pub defaults: Arc<Policy>,
    /// Of the namespaces listed, whole: what one leaves out is filled in from the defaults.
    pub namespaces: HashMap<String, Arc<Policy>>,
    /// Whether a namespace that is not listed is refused.
    pub strict: bool,
}

impl PolicySet {
    /// The namespace's policy; `None`: the namespace is unknown and `strict` refuses it.
    ///
    /// For every request: one hash of the name, none when no namespace is listed, and no copy.
    pub fn of(&self, namespace: &str) -> Option<&Arc<Policy>> {
        match self.namespaces.get(namespace) {
            Some(policy) => Some(policy),
            None if self.strict => None,
            None => Some(&self.defaults),
        }
    }

    /// The listed namespaces in the order of their names.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.namespaces.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }
}

/// The set in force. A clone is the same handle.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    current: Arc<ArcSwap<PolicySet>>,
}

impl Policies {
    /// With this set in force.
    pub fn new(set: PolicySet) -> Policies {
        Policies {
            current: Arc::new(ArcSwap::from_pointee(set)),
        }
    }

    /// The namespace's policy as it is now, to keep; `None`: the namespace is unknown and refused.
    ///
    /// Who only looks at it for a moment is cheaper off with `load().of(namespace)`, which counts no reference.
    pub fn of(&self, namespace: &str) -> Option<Arc<Policy>> {
        self.current.load().of(namespace).cloned()
    }

    /// The set as it is now. Hold the guard for a moment, not over an `.await`.
    pub fn load(&self) -> Guard<Arc<PolicySet>> {
        self.current.load()
    }

    /// Puts another set in force, at once and as a whole.
    pub fn replace(&self, set: PolicySet) {
        self.current.store(Arc::new(set));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(beta: f64) -> Arc<Policy> {
        Arc::new(Policy {
            beta,
            ..Policy::default()
        })
    }

    fn set(strict: bool) -> PolicySet {
        PolicySet {
            defaults: policy(2.0),
            namespaces: HashMap::from([("shop".to_owned(), policy(3.0))]),
            strict,
        }
    }

    #[test]
    fn a_namespace_that_is_not_listed_has_the_defaults() {
        assert_eq!(set(false).of("shop").map(|policy| policy.beta), Some(3.0));
        assert_eq!(set(false).of("other").map(|policy| policy.beta), Some(2.0));
    }

    #[test]
    fn a_strict_set_refuses_what_is_not_listed() {
        assert_eq!(set(true).of("shop").map(|policy| policy.beta), Some(3.0));
        assert_eq!(set(true).of("other"), None);
    }

    #[test]
    fn every_clone_of_the_handle_sees_the_replacement() {
        let policies = Policies::new(set(false));
        let clone = policies.clone();
        policies.replace(set(true));
        assert_eq!(clone.of("other"), None);
        assert!(clone.load().strict);
    }
}
