//! A bank, a shop and a carrier over real HTTP, which do their work once for each idempotency key
//! and break when they are told to. Everything is in memory; nothing here knows the engine.

mod ledger;
mod server;

pub use ledger::Trouble;

use counterstep_adapters::http::{ReqwestServices, ServiceSettings, Token};
use counterstep_contracts::TaskId;
use counterstep_kernel::ports::HttpServices;
use ledger::Ledger;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// What the services want to see in `Authorization`.
const TOKEN: &str = "a-planted-secret-token";

/// The three services, below one address: `inventory`, `bank` and `shipping`; and `echo`, which
/// says what it was sent.
///
/// | | |
/// |---|---|
/// | `POST /inventory/reservations` | takes `quantity` of `item` out of the stock; 409 when there is not enough |
/// | `POST /bank/charges` | moves `amount_cents` from `account` to the shop; 402 when there is not enough |
/// | `GET /bank/charges/{key}` | the answer to the charge under this key; 404 where there is none |
/// | `POST /shipping/shipments` | gives a tracking number |
/// | `POST /bank/refunds` | moves the money of the charge with the key `charge` back |
/// | `DELETE /inventory/reservations/{key}`, `/shipping/shipments/{key}` | takes back what was done under this key |
/// | any `/echo/{status}` | answers with this status, `?retry_after=` as header, and what was sent |
///
/// What is taken back before it is done is remembered: a request that comes late finds 410.
#[derive(Debug)]
pub struct Services {
    ledger: Arc<Mutex<Ledger>>,
    server: server::Running,
    folder: TempDir,
}

impl Services {
    /// Starts them on a free port of this machine.
    ///
    /// # Panics
    /// When there is none.
    pub async fn start() -> Self {
        let ledger = Arc::new(Mutex::new(Ledger::new()));
        let server = server::start(ledger.clone());
        let folder = tempfile::Builder::new()
            .prefix("counterstep-services-")
            .tempdir()
            .expect("a temporary folder");
        std::fs::write(folder.path().join("token"), format!("{TOKEN}\n"))
            .expect("the token is written");
        Self {
            ledger,
            server,
            folder,
        }
    }

    /// Where a service is.
    #[must_use]
    pub fn url(&self, service: &str) -> String {
        format!("http://{}/{service}", self.server.address)
    }

    /// The file with the token that they want.
    #[must_use]
    pub fn token_file(&self) -> std::path::PathBuf {
        self.folder.path().join("token")
    }

    /// A folder of theirs, which goes with them.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The token that they want: it is to appear nowhere.
    #[must_use]
    pub const fn token(&self) -> &'static str {
        TOKEN
    }

    /// What an engine needs to call them.
    ///
    /// # Panics
    /// When the clients cannot be made.
    #[must_use]
    pub fn http_services(&self) -> Arc<dyn HttpServices> {
        let service = |name: &str| {
            let token = Some(Token::File(self.token_file()));
            (
                name.to_owned(),
                ServiceSettings {
                    url: self.url(name),
                    token,
                    ..ServiceSettings::default()
                },
            )
        };
        let settings: BTreeMap<_, _> = ["inventory", "bank", "shipping", "echo"]
            .map(service)
            .into();
        Arc::new(ReqwestServices::open(&settings).expect("the services can be called"))
    }

    /// Breaks the next request for `method` and `path`, as `"POST /bank/charges"`. Several queue
    /// up.
    pub fn plant(&self, request: &str, trouble: Trouble) {
        self.ledger().plant(request, None, trouble);
    }

    /// Breaks the next call of this task for `method` and `path`. Several queue up, and each call
    /// that comes takes one: a task whose policy retries more often than that gets through, however
    /// the tasks beside it fare.
    pub fn plant_for(&self, task: TaskId, request: &str, trouble: Trouble) {
        self.ledger().plant(request, Some(task), trouble);
    }

    /// How many troubles that were planted for this task and request have not struck yet.
    #[must_use]
    pub fn planted_for(&self, task: TaskId, request: &str) -> usize {
        self.ledger().planted_for(request, task)
    }

    /// How many troubles that were planted for this request, of whichever task, have not struck
    /// yet.
    #[must_use]
    pub fn planted_at(&self, request: &str) -> usize {
        self.ledger().planted_at(request)
    }

    /// How many planted troubles have not struck yet.
    #[must_use]
    pub fn planted(&self) -> usize {
        self.ledger().planted()
    }

    /// How many requests came for this method and path, `DELETE` by the path without its key.
    #[must_use]
    pub fn requests(&self, request: &str) -> usize {
        self.ledger().requests(request)
    }

    /// How many requests are still to be done late.
    #[must_use]
    pub fn late(&self) -> usize {
        self.ledger().late
    }

    /// Each `traceparent` that requests came with.
    #[must_use]
    pub fn traces(&self) -> Vec<String> {
        self.ledger().traces.iter().cloned().collect()
    }

    /// What `account` has, in cents; the shop's is `shop`.
    #[must_use]
    pub fn balance(&self, account: &str) -> i64 {
        self.ledger().balance(account)
    }

    /// All that was done under keys of this task and was not taken back, as `service/step`.
    #[must_use]
    pub fn open(&self, task: TaskId) -> Vec<String> {
        self.ledger().open(task)
    }

    /// No money and no goods were made or lost, and of this task all has been taken back, or each
    /// service has done its work once.
    ///
    /// # Panics
    /// When it is not so.
    pub fn assert_settled(&self, task: TaskId, completed: bool) {
        self.ledger().assert_conserved();
        let open = self.open(task);
        let wanted: &[&str] = if completed {
            &["bank/charge", "inventory/reserve", "shipping/ship"]
        } else {
            &[]
        };
        assert_eq!(open, wanted, "what stands of the task {task}");
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock()
    }
}
