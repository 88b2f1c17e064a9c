//! A server as long as the process lives: connected, listed, lost, connected again.
//!
//! [`Server::keep`] is the life of it, one loop in a task that the runtime starts. Calls use
//! whatever connection there is, and fail at once where there is none. It must never hold its lock
//! over an await.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rmcp::{
    RoleClient,
    model::{CallToolRequestParams, CallToolResponse, ClientRequest, ErrorCode, JsonObject, RequestMetaObject},
    service::{Peer, ServiceError},
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{
    Reach, Settings,
    child::{self, Child, Pipes, Start},
    connect::Connection,
    content,
    drift::Book,
    fault, listing,
};
use crate::{
    core::{
        Entry, Fact, Fault, FaultKind,
        port::{ToolContext, ToolReply},
    },
    journal::SystemLog,
    tool::Registration,
};

/// The wait before the first attempt to connect again; it doubles with each that fails.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// A connection that held this long was a good one.
const GOOD: Duration = Duration::from_secs(30);
/// How long a server that is in doubt may take to answer that it lives.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);
/// Characters of a version that are kept. One of the protocol is a date; a server may say anything.
const VERSION_CHARS: usize = 32;
/// The name, in `_meta`, of the key that is the same for all attempts of a call.
const IDEMPOTENCY_KEY: &str = "glassbox/idempotency-key";

/// One MCP server, and what is known of its tools.
pub struct Server {
    name: String,
    settings: Settings,
    system: SystemLog,
    /// Takes out of a server's diagnostics what nobody may read.
    redact: fn(&str) -> String,
    standing: Mutex<Standing>,
    listing: watch::Sender<Listing>,
    /// Told by a call that got no answer.
    doubt: Notify,
    /// Told by the server that its tools changed.
    changed: Arc<Notify>,
}

/// The tools that a server offers.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Grows with every change.
    pub version: u64,
    /// Whether the server has answered, or failed to, at least once.
    pub tried: bool,
    /// The tools: as listed, or as last seen by an earlier process.
    pub tools: Arc<Vec<Registration>>,
}

struct Standing {
    peer: Option<Peer<RoleClient>>,
    /// Why there is no connection.
    why: String,
    book: Book,
    blocked: BTreeSet<String>,
    /// Tools whose schema cannot be used, and why.
    left_out: BTreeMap<String, String>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Server {
    /// A server that is not connected yet; its tools are those that `earlier` processes saw.
    pub fn new(
        name: &str,
        settings: Settings,
        system: SystemLog,
        redact: fn(&str) -> String,
        earlier: &[Entry],
    ) -> Arc<Self> {
        let book = Book::restore(name, earlier);
        let known = book.accepted();
        let why = "it has not been reached yet".to_owned();
        let server = Arc::new(Self {
            name: name.to_owned(),
            settings,
            system,
            redact,
            standing: Mutex::new(Standing {
                peer: None,
                why,
                book,
                blocked: BTreeSet::new(),
                left_out: BTreeMap::new(),
            }),
            listing: watch::Sender::default(),
            doubt: Notify::new(),
            changed: Arc::default(),
        });
        let offers: Vec<_> = known.into_iter().map(|definition| listing::Offer { definition, effect: None }).collect();
        let tools = Arc::new(listing::registrations(&server, &offers));
        server.listing.send_modify(|listing| listing.tools = tools);
        server
    }

    /// Its configured name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it was set up with.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Its tools, now and as they change.
    pub fn listing(&self) -> watch::Receiver<Listing> {
        self.listing.subscribe()
    }

    /// Whether calls of this tool are refused because its definition changed.
    pub(super) fn is_blocked(&self, tool: &str) -> bool {
        self.lock().blocked.contains(tool)
    }

    /// Why it cannot be called now; nothing where it can.
    pub fn trouble(&self) -> Option<String> {
        self.connected().err().map(|fault| fault.detail)
    }

    /// The version of the protocol that it agreed to, as it says; nothing where it is not there.
    pub(super) fn protocol(&self) -> Option<String> {
        let info = self.lock().peer.as_ref()?.peer_info()?;
        Some(info.protocol_version.as_str().chars().take(VERSION_CHARS).collect())
    }

    /// Its tools that are not offered to anybody, by its own names, and why.
    pub fn left_out(&self) -> BTreeMap<String, String> {
        self.lock().left_out.clone()
    }

    /// Notes a tool that cannot be offered.
    pub(super) fn leave_out(&self, tool: &str, wrong: String) {
        tracing::warn!(target: "glassbox", server = self.name, tool, %wrong, "a tool is left out");
        self.lock().left_out.insert(tool.to_owned(), wrong);
    }

    /// Keeps it connected until it is told to stop; then it is gone with all that it started.
    pub async fn keep(self: Arc<Self>, stop: CancellationToken) {
        let mut wait = FIRST_WAIT;
        loop {
            let begun = tokio::time::Instant::now();
            let why = self.live(&stop).await;
            if stop.is_cancelled() {
                return;
            }
            if begun.elapsed() >= GOOD {
                wait = FIRST_WAIT;
            }
            tracing::warn!(target: "glassbox", server = self.name, %why, again_in = ?wait, "an MCP server is not there");
            self.down(why);
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// One life of the server, from its start to its end; says how it ended.
    async fn live(self: &Arc<Self>, stop: &CancellationToken) -> String {
        match &self.settings.reach {
            Reach::Http { url, headers } => {
                let connect = Connection::over_http(url, headers, self.changed.clone());
                self.work(connect, stop).await
            }
            Reach::Stdio { command, env, inherited, cwd } => {
                let start = Start { command, env, inherited, cwd: cwd.as_ref() };
                let (child, Pipes { input, output, errors }) = match Child::start(&start) {
                    Ok(started) => started,
                    Err(why) => return why,
                };
                let connect = Connection::over_pipes(input, output, self.changed.clone());
                let why = tokio::select! {
                    why = self.work(connect, stop) => why,
                    () = child::follow(errors, |line| self.tell(line)) => "its pipes closed".to_owned(),
                };
                child.stop().await;
                why
            }
        }
    }

    /// Connects, lists, and stays until the connection is lost.
    async fn work(
        self: &Arc<Self>,
        connect: impl Future<Output = Result<Connection, String>>,
        stop: &CancellationToken,
    ) -> String {
        let begin = async {
            let connection = connect.await?;
            self.refresh(connection.peer()).await?;
            Ok::<_, String>(connection)
        };
        let connection = tokio::select! {
            () = stop.cancelled() => return "stopped".to_owned(),
            begun = tokio::time::timeout(self.settings.start_timeout, begin) => match begun {
                Ok(Ok(connection)) => connection,
                Ok(Err(why)) => return why,
                Err(_) => return format!("it was not ready within {:?}", self.settings.start_timeout),
            },
        };
        self.lock().peer = Some(connection.peer().clone());
        self.listing.send_modify(|listing| listing.tried = true);
        let why = tokio::select! {
            () = stop.cancelled() => "stopped".to_owned(),
            () = connection.lost() => "the connection was lost".to_owned(),
            why = self.watch(connection.peer()) => why,
        };
        self.lock().peer = None;
        connection.close().await;
        why
    }

    /// Lists again where the list changed; ends where a server in doubt gives no sign of life.
    async fn watch(self: &Arc<Self>, peer: &Peer<RoleClient>) -> String {
        loop {
            let ask = tokio::select! {
                () = self.changed.notified() => self.settings.start_timeout,
                () = self.doubt.notified() => Duration::ZERO,
            };
            if ask.is_zero() {
                let ping = peer.send_request(ClientRequest::PingRequest(Default::default()));
                match tokio::time::timeout(SIGN_OF_LIFE, ping).await {
                    // An error that it answered is a sign of life too.
                    Ok(Ok(_) | Err(ServiceError::McpError(_))) => {}
                    Ok(Err(error)) => return fault::of_call(&self.name, &error).detail,
                    Err(_) => return "it gives no sign of life".to_owned(),
                }
            } else {
                match tokio::time::timeout(ask, self.refresh(peer)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(why)) => return why,
                    Err(_) => return "it did not list its tools in time".to_owned(),
                }
            }
        }
    }

    /// Lists the tools, notes what changed in them, and shows them.
    async fn refresh(self: &Arc<Self>, peer: &Peer<RoleClient>) -> Result<(), String> {
        let tools = match peer.list_all_tools().await {
            Ok(tools) => tools,
            // A server without tools does not know the request.
            Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => Vec::new(),
            Err(error) => return Err(fault::of_call(&self.name, &error).detail),
        };
        let offers = self.judge(listing::offers(&self.settings, tools));
        let tools = listing::registrations(self, &offers);
        self.listing.send_if_modified(|listing| {
            let specs = |tools: &[Registration]| tools.iter().map(|it| it.tool.spec().clone()).collect::<Vec<_>>();
            let differs = specs(&listing.tools) != specs(&tools);
            if differs {
                listing.version += 1;
                listing.tools = Arc::new(tools);
            }
            differs
        });
        Ok(())
    }

    /// Notes new and changed definitions; what is blocked is shown as it was accepted.
    fn judge(&self, offers: Vec<listing::Offer>) -> Vec<listing::Offer> {
        let (mut standing, settings) = (self.lock(), &self.settings);
        standing.blocked.clear();
        standing.left_out.clear();
        let mut names = listing::names(settings, &offers);
        let mut judged = Vec::with_capacity(offers.len());
        for mut offer in offers {
            let pin = settings.pins.get(&offer.definition.name).copied();
            let verdict = standing.book.judge(&self.name, &offer, pin, settings.on_drift);
            if let Some(mut change) = verdict.change {
                change.called = names.remove(&change.tool);
                if change.old.is_some() {
                    let (tool, blocked) = (&change.tool, change.blocked);
                    tracing::warn!(target: "glassbox", server = self.name, tool, blocked, "a definition changed");
                }
                self.system.record(Fact::ToolDefinitionChanged(Box::new(change)));
            }
            if verdict.blocked {
                standing.blocked.insert(offer.definition.name.clone());
                offer.definition = standing.book.shown(&offer.definition);
            }
            judged.push(offer);
        }
        judged
    }

    /// Calls a tool. Whoever drops this in the middle has the server told that nobody waits.
    pub(super) async fn call(&self, tool: &str, arguments: JsonObject, cx: &ToolContext) -> Result<ToolReply, Fault> {
        let peer = self.connected()?;
        let mut meta = RequestMetaObject::new();
        meta.0.set_traceparent(cx.trace.traceparent());
        meta.0.insert(IDEMPOTENCY_KEY.to_owned(), cx.idempotency_key.clone().into());
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        params.meta = Some(meta);
        let doubt = Doubt(Some(&self.doubt));
        match peer.call_tool_once(params).await {
            Ok(CallToolResponse::Complete(result)) => {
                doubt.dispel();
                content::reply(result)
            }
            Ok(_) => {
                doubt.dispel();
                let detail = "it asks for something besides the arguments, which nobody here can give";
                Err(Fault::new(FaultKind::ToolError, detail))
            }
            Err(error) => {
                if matches!(error, ServiceError::McpError(_)) {
                    doubt.dispel();
                }
                Err(fault::of_call(&self.name, &error))
            }
        }
    }

    fn connected(&self) -> Result<Peer<RoleClient>, Fault> {
        let standing = self.lock();
        let peer = standing.peer.clone().filter(|peer| !peer.is_transport_closed());
        peer.ok_or_else(|| {
            let why = if standing.peer.is_some() { "the connection was lost" } else { standing.why.as_str() };
            Fault::new(FaultKind::Connection, format!("the MCP server {} is not there: {why}", self.name))
        })
    }

    fn down(&self, why: String) {
        self.lock().why = why;
        self.listing.send_if_modified(|listing| !std::mem::replace(&mut listing.tried, true));
    }

    fn tell(&self, line: &str) {
        if !line.is_empty() {
            tracing::info!(target: "glassbox", server = self.name, "{}", (self.redact)(line));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Raises a doubt whether the server lives, unless it answered.
struct Doubt<'a>(Option<&'a Notify>);

impl Doubt<'_> {
    fn dispel(mut self) {
        self.0 = None;
    }
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        if let Some(doubt) = self.0 {
            doubt.notify_one();
        }
    }
}
