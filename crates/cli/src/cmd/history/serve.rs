//! `truecount history serve`: the page and the records over HTTP, and records of others taken in for those who have the
//! token. Nothing of a request names a file.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tiny_http::{Header, Method, Request, Response, Server, StatusCode};
use truecount_history::record::Record;
use truecount_history::store::Store;
use truecount_run::runner::Signals;

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

/// What the workers share.
struct Shared {
    args: Args,
    /// Requests that are being answered.
    busy: AtomicUsize,
    token: Option<String>,
    /// The store's state when the page was made, and the page.
    page: Mutex<Option<(i64, Arc<String>)>>,
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
    let server = Server::http((args.listen, args.port)).map_err(|error| {
        let cause = format!(
            "cannot listen on {}, port {}: {error}",
            args.listen, args.port
        );
        Failure::new(1, cause).hint("--port 0 takes any free one")
    })?;
    let mut out = Output::stdout();
    if let Some(address) = server.server_addr().to_ip() {
        let may = if token.is_some() {
            "readers, and writers with the token"
        } else {
            "readers"
        };
        writeln!(out, "http://{address}/ for {may}; Ctrl-C ends it")?;
        out.flush()?;
    }
    let shared = Arc::new(Shared {
        args: args.clone(),
        busy: AtomicUsize::new(0),
        token,
        page: Mutex::default(),
    });
    let server = Arc::new(server);
    for _ in 0..WORKERS {
        let (server, shared) = (Arc::clone(&server), Arc::clone(&shared));
        std::thread::spawn(move || {
            while let Ok(mut request) = server.recv() {
                shared.busy.fetch_add(1, Ordering::SeqCst);
                let answer = shared.answer(&mut request);
                // Whoever has gone away needs no answer.
                let _ = request.respond(answer);
                shared.busy.fetch_sub(1, Ordering::SeqCst);
            }
        });
    }
    while matches!(signals.wait(None)?, None | Some(libc::SIGCHLD)) {}
    // Who is being answered gets the answer; who sends slowly is not waited for.
    let until = Instant::now() + GRACE;
    while shared.busy.load(Ordering::SeqCst) > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(Outcome::OK)
}

type Answer = Response<std::io::Cursor<Vec<u8>>>;

/// An answer with the headers that all have.
fn answer(status: u16, kind: &str, body: Vec<u8>) -> Answer {
    let headers = [
        ("Content-Type", kind),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-cache"),
        ("Content-Security-Policy", "frame-ancestors 'none'"),
    ];
    let headers = headers
        .iter()
        .filter_map(|(name, value)| Header::from_bytes(*name, *value).ok());
    headers.fold(
        Response::from_data(body).with_status_code(StatusCode(status)),
        Response::with_header,
    )
}

fn plain(status: u16, text: &str) -> Answer {
    answer(
        status,
        "text/plain; charset=utf-8",
        format!("{text}\n").into_bytes(),
    )
}

fn header<'r>(request: &'r Request, name: &'static str) -> Option<&'r str> {
    let found = request
        .headers()
        .iter()
        .find(|header| header.field.equiv(name));
    found.map(|header| header.value.as_str())
}

/// Compared without an early end: how long it takes says nothing about the token.
fn same(a: &[u8], b: &[u8]) -> bool {
    let differ = a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b));
    a.len() == b.len() && differ == 0
}

impl Shared {
    fn answer(&self, request: &mut Request) -> Answer {
        if !header(request, "Host").is_some_and(|host| self.is_own(host)) {
            // A foreign name that leads here is a page of others that wants to read this one.
            return plain(403, "not asked by its own name: history serve --host NAME");
        }
        let path = request
            .url()
            .split('?')
            .next()
            .unwrap_or_default()
            .to_owned();
        match (request.method(), path.as_str()) {
            (Method::Get | Method::Head, "/") => self.page(),
            (Method::Post, "/records") => self.take(request),
            (Method::Get | Method::Head, path) => match path.strip_prefix("/records/") {
                Some(commit) => self.records(commit),
                None => plain(404, "there is / and /records/COMMIT"),
            },
            _ => plain(405, "GET / and /records/COMMIT, POST /records"),
        }
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
        let made = || -> Result<Arc<String>, Failure> {
            let mut store = self.args.store.open(false)?;
            let state = store.state()?;
            let mut page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((of, page)) = page.as_ref().filter(|(of, _)| *of == state) {
                let _ = of;
                return Ok(Arc::clone(page));
            }
            let new = Arc::new(html(&self.args.of, &self.args.store, &mut store)?);
            *page = Some((state, Arc::clone(&new)));
            Ok(new)
        };
        match made() {
            Ok(page) => answer(200, "text/html; charset=utf-8", page.as_bytes().to_vec()),
            Err(failure) => plain(500, &failure.to_string()),
        }
    }

    fn records(&self, commit: &str) -> Answer {
        let usual = commit.len() <= 64 && commit.chars().all(|c| c.is_ascii_hexdigit());
        if !usual || commit.is_empty() {
            return plain(404, "a commit is named by its whole hash");
        }
        let found = || -> Result<Vec<Record>, Failure> {
            let mut store = self.args.store.open(false)?;
            Ok(store.records(commit, None)?)
        };
        match found().map(|records| (records.is_empty(), serde_json::to_vec(&records))) {
            Ok((true, _)) => plain(404, "this commit has no record"),
            Ok((false, Ok(text))) => answer(200, "application/json", text),
            Ok((_, Err(error))) => plain(500, &error.to_string()),
            Err(failure) => plain(500, &failure.to_string()),
        }
    }

    /// Adds a record.
    fn take(&self, request: &mut Request) -> Answer {
        let Some(token) = &self.token else {
            return plain(403, "nobody may write: history serve --token-file");
        };
        let given =
            header(request, "Authorization").and_then(|value| value.strip_prefix("Bearer "));
        if !given.is_some_and(|given| same(given.trim().as_bytes(), token.as_bytes())) {
            return plain(401, "the token is not the right one");
        }
        let largest = self.args.max_size << 20;
        match request.body_length() {
            None => return plain(411, "how long it is must be said: Content-Length"),
            Some(length) if length as u64 > largest => {
                let limit = format!("a record may have {} MiB", self.args.max_size);
                return plain(413, &limit);
            }
            Some(_) => {}
        }
        let mut text = String::new();
        if let Err(error) = request.as_reader().take(largest).read_to_string(&mut text) {
            return plain(400, &format!("the record cannot be read: {error}"));
        }
        let record = match Record::parse(&text) {
            Ok(record) => record,
            Err(error) => return plain(400, &error.to_string()),
        };
        let added = || -> Result<_, Failure> {
            let mut store: Store = self.args.store.open(true)?;
            Ok(store.add(&record)?)
        };
        match added() {
            Ok(added) if added.new => {
                plain(201, &format!("added {}", number_of(added.points, "value")))
            }
            Ok(_) => plain(200, "it was there already"),
            Err(failure) => plain(500, &failure.to_string()),
        }
    }
}
