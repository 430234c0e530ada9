//! `truecount history serve`: the page and the records over HTTP, and records of others taken in for those who have the
//! token. Nothing of a request names a file.

mod http;

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use truecount_history::record::Record;
use truecount_history::store::Store;
use truecount_run::runner::Signals;

use self::http::{Listening, Patience};
use super::page::{PageArgs, html};
use super::{StoreArgs, number_of};
use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::Output;

const EXAMPLES: &str = "\
EXAMPLES
  truecount history serve                                 the page, on http://127.0.0.1:8737
  truecount history serve --token-file token              records may come too, by history push
  curl -H \"Authorization: Bearer $(cat token)\" --data-binary @record.json \\
    http://127.0.0.1:8737/records

GET / is the page, GET /records/COMMIT the records of a commit, POST /records adds one. It has no
TLS and trusts no name but its own: over a network put a reverse proxy before it, and name the host
by --host.";

/// So many requests are worked on at once.
const WORKERS: usize = 4;

/// What is being answered when it is to end has so long.
const GRACE: Duration = Duration::from_millis(500);

/// Serve the page of the store over HTTP, and accept records from clients that have the token
#[derive(Clone, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    listen: IpAddr,
    /// The port to listen on (0: any free one)
    #[arg(long, value_name = "PORT", default_value_t = 8737)]
    port: u16,
    /// Host names that it answers to, beside localhost and addresses
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Accept records from clients that send the token in FILE (at least 16 characters); without it nobody may write
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The largest record that is accepted, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=256))]
    max_size: u64,
    #[command(flatten)]
    of: PageArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// What all connections share.
struct Shared {
    args: Args,
    /// Requests that are being answered.
    busy: AtomicUsize,
    token: Option<String>,
    patience: Patience,
    /// MiB of records that may be in memory, beside those that are kept: what all workers can work on.
    room: Arc<Semaphore>,
    /// The store's state when the page was made, and the page.
    page: Mutex<Option<(i64, Bytes)>>,
}

/// A request that is being answered.
struct Busy(Arc<Shared>);

impl Busy {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.busy.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(shared))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The token that a file holds.
pub(super) fn token(path: &std::path::Path) -> Result<String, Failure> {
    let shown = path.display();
    let text = truecount_run::input::text(path)
        .map_err(|error| Failure::new(1, format!("cannot read the token {shown}: {error}")))?;
    let token = text.trim();
    let usual = token.chars().all(|c| c.is_ascii_graphic());
    if token.len() < 16 || token.len() > 512 || !usual {
        let cause =
            format!("{shown} holds no token: one line of 16 to 512 visible ASCII characters");
        return Err(Failure::new(2, cause).hint("openssl rand -hex 32 makes one"));
    }
    Ok(token.to_owned())
}

pub(super) fn run(args: &Args) -> CmdResult {
    let token = args.token_file.as_deref().map(token).transpose()?;
    // A store that is none is told now, not to the first reader; who may write may begin one.
    drop(args.store.open(token.is_some())?);
    // Before there are threads: they leave signals to this one.
    let signals = Signals::block()?;
    let listen = || {
        let listener = TcpListener::bind((args.listen, args.port))?;
        Ok((listener.local_addr()?, Listening::new(listener)?))
    };
    let (address, listening) = listen().map_err(|error: std::io::Error| {
        let cause = format!(
            "cannot listen on {}, port {}: {error}",
            args.listen, args.port
        );
        Failure::new(1, cause).hint("--port 0 takes any free one")
    })?;
    let mut out = Output::stdout();
    let may = if token.is_some() {
        "readers, and writers with the token"
    } else {
        "readers"
    };
    writeln!(out, "http://{address}/ for {may}; Ctrl-C ends it")?;
    out.flush()?;
    let shared = Arc::new(Shared::new(args.clone(), token, Patience::USUAL));
    listening.answer(Arc::clone(&shared))?;
    while matches!(signals.wait(None)?, None | Some(libc::SIGCHLD)) {}
    // Who is being answered gets the answer; who sends slowly is not waited for.
    let until = Instant::now() + GRACE;
    while shared.busy.load(Ordering::SeqCst) > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(Outcome::OK)
}

type Answer = Response<Full<Bytes>>;

/// An answer with the headers that all have.
fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, "frame-ancestors 'none'"),
    ];
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    for (name, value) in headers {
        let value = HeaderValue::from_static(value);
        answer.headers_mut().insert(name, value);
    }
    answer
}

fn plain(status: StatusCode, text: &str) -> Answer {
    answer(status, "text/plain; charset=utf-8", format!("{text}\n"))
}

fn failed(error: &dyn std::fmt::Display) -> Answer {
    plain(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
}

fn header<B>(request: &Request<B>, name: HeaderName) -> Option<&str> {
    request.headers().get(name)?.to_str().ok()
}

/// Compared without an early end: how long it takes says nothing about the token.
fn same(a: &[u8], b: &[u8]) -> bool {
    let differ = a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b));
    a.len() == b.len() && differ == 0
}

impl Shared {
    fn new(args: Args, token: Option<String>, patience: Patience) -> Self {
        let room = usize::try_from(args.max_size).unwrap_or(1) * WORKERS;
        Self {
            args,
            busy: AtomicUsize::new(0),
            token,
            patience,
            room: Arc::new(Semaphore::new(room)),
            page: Mutex::default(),
        }
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        if !header(&request, header::HOST).is_some_and(|host| self.is_own(host)) {
            // A foreign name that leads here is a page of others that wants to read this one.
            let cause = "not asked by its own name: history serve --host NAME";
            return plain(StatusCode::FORBIDDEN, cause);
        }
        // A whole address is what a proxy is asked for, which this is not.
        let whole = request.uri().authority().is_some();
        let path = if whole { "" } else { request.uri().path() };
        match (request.method(), path) {
            (&Method::GET | &Method::HEAD, "/") => self.work(Self::page).await,
            (&Method::POST, "/records") => self.take(request).await,
            (&Method::GET | &Method::HEAD, path) => match path.strip_prefix("/records/") {
                Some(commit) => {
                    let commit = commit.to_owned();
                    self.work(move |shared| shared.records(&commit)).await
                }
                None => plain(StatusCode::NOT_FOUND, "there is / and /records/COMMIT"),
            },
            _ => plain(
                StatusCode::METHOD_NOT_ALLOWED,
                "GET / and /records/COMMIT, POST /records",
            ),
        }
    }

    /// What waits for the store or computes, by a worker.
    async fn work(self: Arc<Self>, work: impl FnOnce(&Self) -> Answer + Send + 'static) -> Answer {
        let made = spawn_blocking(move || work(&self)).await;
        made.unwrap_or_else(|error| failed(&error))
    }

    /// Whether a name is this server's.
    fn is_own(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        let named = self
            .args
            .host
            .iter()
            .any(|own| own.eq_ignore_ascii_case(name));
        named || name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
    }

    fn page(&self) -> Answer {
        let made = || -> Result<Bytes, Failure> {
            let mut store = self.args.store.open(false)?;
            let state = store.state()?;
            let mut page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, page)) = page.as_ref().filter(|(of, _)| *of == state) {
                return Ok(page.clone());
            }
            let new = Bytes::from(html(&self.args.of, &self.args.store, &mut store)?);
            *page = Some((state, new.clone()));
            Ok(new)
        };
        match made() {
            Ok(page) => answer(StatusCode::OK, "text/html; charset=utf-8", page),
            Err(failure) => failed(&failure),
        }
    }

    fn records(&self, commit: &str) -> Answer {
        let usual = commit.len() <= 64 && commit.chars().all(|c| c.is_ascii_hexdigit());
        if !usual || commit.is_empty() {
            return plain(StatusCode::NOT_FOUND, "a commit is named by its whole hash");
        }
        let found = || -> Result<Vec<Record>, Failure> {
            let mut store = self.args.store.open(false)?;
            Ok(store.records(commit, None)?)
        };
        match found().map(|records| (records.is_empty(), serde_json::to_vec(&records))) {
            Ok((true, _)) => plain(StatusCode::NOT_FOUND, "this commit has no record"),
            Ok((false, Ok(text))) => answer(StatusCode::OK, "application/json", text),
            Ok((_, Err(error))) => failed(&error),
            Err(failure) => failed(&failure),
        }
    }

    /// Takes a record in.
    async fn take(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let Some(token) = &self.token else {
            let cause = "nobody may write: history serve --token-file";
            return plain(StatusCode::FORBIDDEN, cause);
        };
        let given =
            header(&request, header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        if !given.is_some_and(|given| same(given.trim().as_bytes(), token.as_bytes())) {
            return plain(StatusCode::UNAUTHORIZED, "the token is not the right one");
        }
        // Of one in chunks nobody knows it; one without a body has said nothing.
        let said = request.headers().contains_key(header::CONTENT_LENGTH);
        let length = match request.body().size_hint().exact() {
            Some(length) if said => length,
            _ => {
                let cause = "how long it is must be said: Content-Length";
                return plain(StatusCode::LENGTH_REQUIRED, cause);
            }
        };
        if length > self.args.max_size << 20 {
            let limit = format!("a record may have {} MiB", self.args.max_size);
            return plain(StatusCode::PAYLOAD_TOO_LARGE, &limit);
        }
        let needed = u32::try_from(length.div_ceil(1 << 20)).unwrap_or(u32::MAX);
        let mut body = request.into_body();
        let read = async {
            let room = Arc::clone(&self.room).acquire_many_owned(needed).await;
            let mut text = Vec::new();
            while let Some(frame) = body.frame().await {
                if let Ok(part) = frame?.into_data() {
                    text.extend_from_slice(&part);
                }
            }
            Ok::<_, hyper::Error>((room, text))
        };
        match timeout(self.patience.record, read).await {
            Ok(Ok((room, text))) => {
                let added = move |shared: &Self| {
                    let answer = shared.add(text);
                    drop(room);
                    answer
                };
                Arc::clone(&self).work(added).await
            }
            Ok(Err(error)) => unreadable(&error),
            Err(_) => plain(
                StatusCode::REQUEST_TIMEOUT,
                "the record did not come in time",
            ),
        }
    }

    fn add(&self, text: Vec<u8>) -> Answer {
        let text = match String::from_utf8(text) {
            Ok(text) => text,
            Err(error) => return unreadable(&error),
        };
        let record = match Record::parse(&text) {
            Ok(record) => record,
            Err(error) => return plain(StatusCode::BAD_REQUEST, &error.to_string()),
        };
        let added = || -> Result<_, Failure> {
            let mut store: Store = self.args.store.open(true)?;
            Ok(store.add(&record)?)
        };
        match added() {
            Ok(added) if added.new => {
                let said = format!("added {}", number_of(added.points, "value"));
                plain(StatusCode::CREATED, &said)
            }
            Ok(_) => plain(StatusCode::OK, "it was there already"),
            Err(failure) => failed(&failure),
        }
    }
}

fn unreadable(error: &dyn std::fmt::Display) -> Answer {
    plain(
        StatusCode::BAD_REQUEST,
        &format!("the record cannot be read: {error}"),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::{Duration, Instant};

    use clap::Parser as _;

    use super::{Args, Listening, Patience, Shared};

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    const LONG: Duration = Duration::from_secs(600);
    const SHORT: Duration = Duration::from_millis(300);
    const LARGE: &str = "POST /records HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer 0123456789abcdef\r\n\
                         Content-Length: 1000000\r\n\r\n{";

    fn serve(patience: Patience) -> (Arc<Shared>, std::net::SocketAddr) {
        let args = Line::parse_from(["serve", "--store", "/nowhere/history.db"]).args;
        let token = Some("0123456789abcdef".to_owned());
        let shared = Arc::new(Shared::new(args, token, patience));
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let listening = Listening::new(listener).unwrap();
        listening.answer(Arc::clone(&shared)).unwrap();
        (shared, address)
    }

    /// What is answered to a client that sends this and waits.
    fn said(address: std::net::SocketAddr, sent: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream.write_all(sent.as_bytes()).unwrap();
        let mut said = String::new();
        match stream.read_to_string(&mut said) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
        said
    }

    #[test]
    fn who_sends_slowly_is_not_waited_for() {
        let usual = Patience {
            headers: LONG,
            record: LONG,
            whole: LONG,
        };
        let headers = Patience {
            headers: SHORT,
            ..usual
        };
        let (_, address) = serve(headers);
        assert_eq!(said(address, "GET / HTTP/1.1\r\nHost: loc"), "");
        assert_eq!(said(address, ""), "");

        let record = Patience {
            record: SHORT,
            ..usual
        };
        let (shared, address) = serve(record);
        let answer = said(address, LARGE);
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert!(answer.ends_with("did not come in time\n"), "{answer}");

        let whole = Patience {
            whole: SHORT,
            ..usual
        };
        let (other, address) = serve(whole);
        assert_eq!(said(address, LARGE), "");
        // What they took is free again.
        let until = Instant::now() + Duration::from_secs(10);
        for shared in [shared, other] {
            let all = usize::try_from(shared.args.max_size).unwrap() * super::WORKERS;
            let free = || {
                shared.busy.load(Ordering::SeqCst) == 0 && shared.room.available_permits() == all
            };
            while !free() {
                assert!(Instant::now() < until, "something is still taken");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}
