//! API keys of a tenant, and who sends the request. The answer that makes a key is the only one that holds it.

use crate::{Caller, Cx, Refused, Run, invalid};
use counterstep_contracts::access::{CallerView, KeyView, NewKey, NewKeyRequest};
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::keys::{GetCaller, KeyId, ListKeys, MakeKey, RevokeKey};
use counterstep_contracts::retry::parse_duration;
use counterstep_contracts::{ProblemCode, Tenant};
use counterstep_kernel::access::api_keys::{self, KeyError, KeySpec};
use counterstep_kernel::ports::ApiKeyRow;
use counterstep_steps::times::rfc3339;

/// Whether a caller may see, make and revoke the keys of a tenant.
fn is_within_reach(caller: &Caller, tenant: &Tenant) -> bool {
    caller.is_of_installation() || caller.tenant == *tenant
}

impl Run for ListKeys {
    async fn run(cx: Cx, (): (), (): ()) -> Result<Page<KeyView>, Refused> {
        let rows = cx.engine.ports.store.api_keys().await?.rows.into_iter();
        let own = rows.filter(|row| is_within_reach(&cx.caller, &row.tenant));
        Ok(Page::whole(own.map(key_view).collect()))
    }
}

impl Run for MakeKey {
    async fn run(cx: Cx, (): (), input: NewKeyRequest) -> Result<NewKey, Refused> {
        let tenant = input.tenant.map_or(cx.caller.tenant.clone(), Tenant);
        if !is_within_reach(&cx.caller, &tenant) {
            let detail = format!(
                "keys of other tenants are for administrators of the tenant `{}`",
                Tenant::default()
            );
            return Err(Refused::new(ProblemCode::Forbidden, detail).at("tenant"));
        }
        let expires_in = input.expires_in.map(|text| {
            let time = parse_duration(&text).filter(|time| !time.is_zero());
            let detail = "`expires_in` is a whole number with a unit, such as 12h or 90d";
            time.ok_or_else(|| invalid(detail).at("expires_in"))
        });
        let spec = KeySpec {
            tenant,
            subject: input.subject,
            role: input.role,
            expires_in: expires_in.transpose()?,
        };
        let (ports, by) = (&cx.engine.ports, cx.actor::<Self>());
        let (key, row) = api_keys::make(&ports.store, ports.random.as_ref(), spec, &by).await?;
        Ok(NewKey {
            key: key.expose(),
            view: key_view(row),
        })
    }
}

impl Run for RevokeKey {
    async fn run(cx: Cx, KeyId(id): KeyId, (): ()) -> Result<KeyView, Refused> {
        let store = &cx.engine.ports.store;
        // The tenant of a key never changes.
        let is_of_another = |row: &ApiKeyRow| !is_within_reach(&cx.caller, &row.tenant);
        if store.api_key(&id).await?.rows.iter().any(is_of_another) {
            return Err(no_such_key());
        }
        let row = api_keys::revoke(store, &id, &cx.actor::<Self>()).await?;
        cx.process.forget_key(&id);
        Ok(key_view(row))
    }
}

impl Run for GetCaller {
    async fn run(cx: Cx, (): (), (): ()) -> Result<CallerView, Refused> {
        Ok(CallerView {
            is_of_installation: cx.caller.is_of_installation(),
            tenant: cx.caller.tenant.0,
            subject: cx.caller.subject,
            role: cx.caller.role,
            key: cx.caller.key,
        })
    }
}

impl From<KeyError> for Refused {
    fn from(error: KeyError) -> Self {
        let detail = error.to_string();
        match error {
            KeyError::Invalid(_) => invalid(detail),
            KeyError::Gone(_) => no_such_key(),
            KeyError::Moved => Self::new(ProblemCode::Unavailable, detail).retry_after(1),
            KeyError::Store(error) => error.into(),
        }
    }
}

fn no_such_key() -> Refused {
    let detail = "see /api/keys for those that there are";
    Refused::new(ProblemCode::NoSuchKey, detail)
}

/// An API key as it is listed.
#[must_use]
pub fn key_view(row: ApiKeyRow) -> KeyView {
    let (revoked_at, revoked_by) = row.revoked.unzip();
    KeyView {
        id: row.id,
        tenant: row.tenant.0,
        subject: row.subject,
        role: row.role,
        created_at: rfc3339(row.created_at),
        created_by: row.created_by,
        expires_at: row.expires_at.map(rfc3339),
        revoked_at: revoked_at.map(rfc3339),
        revoked_by,
    }
}
