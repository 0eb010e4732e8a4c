//! A TCP proxy in front of a PostgreSQL server, for network faults that a server cannot produce by
//! itself: connections that are cut, a network that swallows bytes, and a commit whose reply is
//! lost after the server has executed it.
//!
//! It reads the frames of the PostgreSQL protocol far enough to know the text of the statement that
//! a reply belongs to. It must not change a byte of what it forwards, and it listens on the
//! loopback address only.

use super::process::lock;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

/// A frame of the protocol may not be longer: what claims more is no PostgreSQL.
const LONGEST_FRAME: usize = 64 << 20;
/// Between two looks at a network that swallows everything.
const PAUSE: Duration = Duration::from_millis(20);
/// `SSLRequest` and `GSSENCRequest`: the server answers one byte and the real start follows.
const ENCRYPTION_REQUESTS: [u32; 2] = [80_877_103, 80_877_104];

/// Decides by the text of a statement whether its reply is lost.
type Selects = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// What the network does to connections.
#[derive(Clone)]
enum Network {
    /// Forwards everything.
    Up,
    /// Closes connections at once.
    Down,
    /// Keeps connections open and forwards nothing.
    Silent,
}

struct State {
    network: Mutex<Network>,
    /// How many replies are still to be lost, and to which statements.
    losing: Mutex<Option<(Selects, u32)>>,
    lost: AtomicU64,
    /// The statements since the start or the last look, where a test counts them.
    statements: Mutex<Option<Vec<String>>>,
    /// By a number of their own, so that a connection that has ended keeps no descriptor.
    open: Mutex<BTreeMap<u64, [TcpStream; 2]>>,
    next: AtomicU64,
    /// Connections with a smaller number forward nothing more.
    silent_below: AtomicU64,
    ended: AtomicBool,
    upstream: AtomicU16,
}

/// A proxy on a port of its own. Dropped, it cuts all connections and stops listening.
pub struct Proxy {
    port: u16,
    state: Arc<State>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl Proxy {
    /// In front of a PostgreSQL server on this port of the loopback address.
    ///
    /// # Panics
    /// When there is no free port.
    #[must_use]
    pub fn to(upstream: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("a bound address").port();
        let state = Arc::new(State {
            network: Mutex::new(Network::Up),
            losing: Mutex::new(None),
            lost: AtomicU64::new(0),
            statements: Mutex::new(None),
            open: Mutex::default(),
            next: AtomicU64::new(0),
            silent_below: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            upstream: AtomicU16::new(upstream),
        });
        let accepting = state.clone();
        start("proxy", move || accept(&listener, &accepting));
        Self { port, state }
    }

    /// The port that it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a database of the server, by way of this proxy.
    ///
    /// # Panics
    /// When the URL does not name the server's port.
    #[must_use]
    pub fn url(&self, direct: &str) -> String {
        let upstream = self.state.upstream.load(Ordering::SeqCst);
        let port = format!(":{upstream}/");
        assert!(
            direct.contains(&port),
            "{direct} is no database of the server on port {upstream}"
        );
        direct.replace(&port, &format!(":{}/", self.port))
    }

    /// Forwards new connections to the server on this port, as a floating address that moves, and cuts those that are
    /// open.
    pub fn redirect(&self, upstream: u16) {
        self.state.upstream.store(upstream, Ordering::SeqCst);
        self.state.cut_all();
    }

    /// Cuts every connection and refuses new ones, until [`heal`](Self::heal).
    pub fn cut(&self) {
        *lock(&self.state.network) = Network::Down;
        self.state.cut_all();
    }

    /// Forwards nothing more, in either direction, and closes nothing, until [`heal`](Self::heal).
    /// What was swallowed by then is gone, so the connections that were open are cut.
    pub fn silence(&self) {
        *lock(&self.state.network) = Network::Silent;
    }

    /// The same for the connections that are open now; new ones are forwarded. So a firewall
    /// forgets a connection.
    pub fn silence_open(&self) {
        self.state
            .silent_below
            .store(self.state.next.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Forwards everything again.
    pub fn heal(&self) {
        let before = std::mem::replace(&mut *lock(&self.state.network), Network::Up);
        if matches!(before, Network::Silent)
            || self.state.silent_below.swap(0, Ordering::SeqCst) > 0
        {
            self.state.cut_all();
        }
    }

    /// Loses the replies to the next `count` statements whose text `selects`: the server executes
    /// the statement, and its connection is cut before the client gets a byte of the reply.
    pub fn lose_replies(&self, count: u32, selects: impl Fn(&str) -> bool + Send + Sync + 'static) {
        *lock(&self.state.losing) = Some((Arc::new(selects), count));
    }

    /// The texts of the statements that went to the server since the last call, in their order; none at
    /// the first call, from which on they are kept. One that is only prepared is none.
    #[must_use]
    pub fn take_statements(&self) -> Vec<String> {
        lock(&self.state.statements)
            .replace(Vec::new())
            .unwrap_or_default()
    }

    /// How many replies were lost so far.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.state.lost.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        self.cut();
        // Wakes the listener, which ends.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Whether a statement is a commit of the store, another change that carries the id of a change, or
/// the end of a transaction.
#[must_use]
pub fn is_commit(text: &str) -> bool {
    let text = text.to_ascii_uppercase();
    let writes = text.contains("INSERT INTO") || text.contains("UPDATE ");
    text.trim_end_matches([';', ' ', '\n']) == "COMMIT"
        || (writes && (text.contains("WITH LIMITS") || text.contains("CHANGE_ID")))
}

impl State {
    fn cut_all(&self) {
        for (_, pair) in std::mem::take(&mut *lock(&self.open)) {
            cut(&pair);
        }
    }

    /// Notes a statement that goes to the server. Whether its reply is to be lost; counts it.
    fn passes(&self, text: &str) -> bool {
        if let Some(statements) = &mut *lock(&self.statements) {
            statements.push(text.to_owned());
        }
        let mut losing = lock(&self.losing);
        match losing.as_mut() {
            Some((selects, left)) if *left > 0 && selects(text) => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }

    /// Waits while the network is silent for the connection of this number. `false`: it is down, or
    /// the proxy has ended.
    fn lets_through(&self, number: u64) -> bool {
        loop {
            if self.ended.load(Ordering::SeqCst) {
                return false;
            }
            match &*lock(&self.network) {
                Network::Up if number >= self.silent_below.load(Ordering::SeqCst) => return true,
                Network::Down => return false,
                Network::Up | Network::Silent => {}
            }
            std::thread::sleep(PAUSE);
        }
    }
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .expect("a thread");
}

fn cut(pair: &[TcpStream; 2]) {
    for stream in pair {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

fn accept(listener: &TcpListener, state: &Arc<State>) {
    for client in listener.incoming() {
        if state.ended.load(Ordering::SeqCst) {
            return;
        }
        let Ok(client) = client else { continue };
        let state = state.clone();
        start("proxy connection", move || {
            let _ = serve(client, &state);
        });
    }
}

/// What both directions of a connection know.
struct Shared {
    number: u64,
    /// The reply to what was sent last is to be lost.
    loses: AtomicBool,
}

fn serve(client: TcpStream, state: &Arc<State>) -> std::io::Result<()> {
    // A silent network accepts nothing; the kernel has accepted for us, so the client waits here.
    let number = state.next.fetch_add(1, Ordering::SeqCst);
    if !state.lets_through(number) {
        return client.shutdown(Shutdown::Both);
    }
    let server = TcpStream::connect(("127.0.0.1", state.upstream.load(Ordering::SeqCst)))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let pair = [client.try_clone()?, server.try_clone()?];
    lock(&state.open).insert(number, [client.try_clone()?, server.try_clone()?]);
    let shared = Arc::new(Shared {
        number,
        loses: AtomicBool::new(false),
    });
    let (back, back_shared) = (state.clone(), shared.clone());
    let (from_server, to_client) = (server.try_clone()?, client.try_clone()?);
    let closing = [server.try_clone()?, client.try_clone()?];
    start("proxy replies", move || {
        let _ = replies(from_server, to_client, &back, &back_shared);
        // A client learns at once of a server that has closed its connection, where the network
        // forwards at all.
        back.lets_through(back_shared.number);
        cut(&closing);
    });
    let ended = requests(client, server, state, &shared);
    cut(&pair);
    lock(&state.open).remove(&number);
    ended
}

fn read_frame(stream: &mut TcpStream, typed: bool) -> std::io::Result<Vec<u8>> {
    let head = if typed { 5 } else { 4 };
    let mut frame = vec![0; head];
    stream.read_exact(&mut frame)?;
    let length: [u8; 4] = frame[head - 4..].try_into().expect("four bytes");
    let body = (u32::from_be_bytes(length) as usize).saturating_sub(4);
    if body > LONGEST_FRAME {
        return Err(std::io::Error::other("a frame that is no PostgreSQL"));
    }
    frame.resize(head + body, 0);
    stream.read_exact(&mut frame[head..])?;
    Ok(frame)
}

/// From the client to the server. Marks the connection before a selected statement is forwarded.
fn requests(
    mut client: TcpStream,
    mut server: TcpStream,
    state: &Arc<State>,
    shared: &Arc<Shared>,
) -> std::io::Result<()> {
    loop {
        let start = read_frame(&mut client, false)?;
        let code = start.get(4..8).map_or(0, |code| {
            u32::from_be_bytes(code.try_into().expect("four bytes"))
        });
        server.write_all(&start)?;
        if !ENCRYPTION_REQUESTS.contains(&code) {
            break;
        }
    }
    let mut statements: BTreeMap<Vec<u8>, String> = BTreeMap::new();
    loop {
        let frame = read_frame(&mut client, true)?;
        let mut fields = frame[5..].split(|byte| *byte == 0);
        let mut text = || String::from_utf8_lossy(fields.next().unwrap_or_default()).into_owned();
        let selected = match frame[0] {
            b'Q' => state.passes(&text()),
            b'P' => {
                let (name, text) = (text(), text());
                statements.insert(name.into_bytes(), text);
                false
            }
            b'B' => {
                let (_portal, name) = (text(), text());
                statements
                    .get(name.as_bytes())
                    .is_some_and(|text| state.passes(text))
            }
            _ => false,
        };
        if selected {
            shared.loses.store(true, Ordering::SeqCst);
        }
        if !state.lets_through(shared.number) {
            return Ok(());
        }
        server.write_all(&frame)?;
    }
}

/// From the server to the client. A lost reply is read to its end, `ReadyForQuery`: by then the
/// statement is committed.
fn replies(
    mut server: TcpStream,
    mut client: TcpStream,
    state: &Arc<State>,
    shared: &Arc<Shared>,
) -> std::io::Result<()> {
    let mut started = false;
    loop {
        // The answer to a request for encryption is one byte, `N` from a server without it; all
        // else are frames.
        let mut first = [0];
        if !started && server.peek(&mut first)? == 1 && first[0] == b'N' {
            server.read_exact(&mut first)?;
            client.write_all(&first)?;
            continue;
        }
        started = true;
        let frame = read_frame(&mut server, true)?;
        if shared.loses.load(Ordering::SeqCst) {
            if frame[0] == b'Z' {
                state.lost.fetch_add(1, Ordering::SeqCst);
                cut(&[server, client]);
                return Ok(());
            }
            continue;
        }
        if !state.lets_through(shared.number) {
            return Ok(());
        }
        client.write_all(&frame)?;
    }
}
