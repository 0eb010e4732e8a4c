//! How many streams or uploads each caller has open. Where callers are not authenticated, an address is a caller. Must not know
//! what they are.

use counterstep_contracts::Tenant;
use counterstep_operations::Caller;
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Who has a share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Holder {
    Subject(Tenant, String),
    Address(IpAddr),
}

impl Holder {
    /// `None`: a request of the process itself.
    fn of(caller: &Caller) -> Option<Self> {
        let of_subject = |subject: &String| Self::Subject(caller.tenant.clone(), subject.clone());
        let subject = caller.subject.as_ref().map(of_subject);
        subject.or(caller
            .address
            .map(|address| Self::Address(network(address))))
    }
}

/// A host has all addresses of its network in IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & (u128::MAX << 64)).into()),
        v4 => v4,
    }
}

/// What is open, by caller.
#[derive(Debug)]
pub(crate) struct Shares {
    open: Mutex<HashMap<Holder, usize>>,
    pub(crate) most: usize,
}

/// One that is open; it is none any more when it is dropped.
#[derive(Debug)]
pub(crate) struct Share(Option<(Arc<Shares>, Holder)>);

impl Shares {
    /// `most`: how many one caller may have open.
    pub(crate) fn of(most: usize) -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::default(),
            most,
        })
    }

    /// `None`: the caller has as many open as it may.
    pub(crate) fn take(self: &Arc<Self>, caller: &Caller) -> Option<Share> {
        let Some(holder) = Holder::of(caller) else {
            return Some(Share(None));
        };
        let mut open = self.lock();
        let count = open.get(&holder).copied().unwrap_or(0);
        if count >= self.most {
            return None;
        }
        open.insert(holder.clone(), count + 1);
        Some(Share(Some((self.clone(), holder))))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Holder, usize>> {
        self.open.lock()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Some((shares, holder)) = self.0.take() else {
            return;
        };
        let mut open = shares.lock();
        if let Some(count) = open.get_mut(&holder) {
            *count -= 1;
            if *count == 0 {
                open.remove(&holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_caller_has_shares_of_its_own_and_gives_them_back() {
        let shares = Shares::of(2);
        let at = |address: &str| Caller {
            address: Some(address.parse().expect("an address")),
            ..Caller::anyone()
        };
        let named = |tenant: &str, subject: &str| Caller {
            tenant: Tenant(tenant.to_owned()),
            subject: Some(subject.to_owned()),
            ..Caller::anyone()
        };
        for [one, same, other] in [
            [at("192.0.2.1"), at("::ffff:192.0.2.1"), at("192.0.2.2")],
            [at("2001:db8::1"), at("2001:db8::2"), at("2001:db8:0:1::1")],
            [named("a", "shop"), named("a", "shop"), named("b", "shop")],
        ] {
            let first = shares.take(&one).expect("the first");
            let _second = shares.take(&same).expect("the second");
            assert!(shares.take(&one).is_none(), "{one:?}");
            assert!(shares.take(&other).is_some(), "{other:?}");
            drop(first);
            assert!(shares.take(&one).is_some(), "{one:?}");
        }
        assert!(shares.lock().is_empty());
        let all: Vec<_> = (0..9).map(|_| shares.take(&Caller::anyone())).collect();
        assert!(all.iter().all(Option::is_some), "the process itself");
    }
}
