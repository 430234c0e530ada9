//! A small HTTP server for one document: bounded in memory, time and threads, whatever is sent to it.
//!
//! It understands `GET /metrics` and says no to the rest. A request's head may have 8 KiB and must come within two
//! seconds; more than eight at a time are turned away. Nothing of a request is echoed. Facts: RFC 9112.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest head of a request.
const LONGEST: usize = 8192;
/// A client has so long to send its request, and again to take the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Requests at a time.
const MAX_CONNECTIONS: usize = 8;

/// The listening server; it ends with the process.
pub struct Server {
    address: SocketAddr,
    page: Arc<Mutex<Option<Arc<String>>>>,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// The address or the port is not available, or no thread can be started.
    pub fn start(address: IpAddr, port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind((address, port))?;
        let address = listener.local_addr()?;
        let page: Arc<Mutex<Option<Arc<String>>>> = Arc::default();
        let shared = page.clone();
        std::thread::Builder::new()
            .name("prometheus".to_owned())
            .spawn(move || serve(&listener, &shared))?;
        Ok(Self { address, page })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The document from now on.
    pub fn publish(&self, text: String) {
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(text));
    }
}

fn serve(listener: &TcpListener, page: &Arc<Mutex<Option<Arc<String>>>>) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of descriptors, most likely: not a reason to spin.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        if open.fetch_add(1, Ordering::SeqCst) >= MAX_CONNECTIONS {
            open.fetch_sub(1, Ordering::SeqCst);
            continue; // closed at once
        }
        let (page, open_here) = (page.clone(), open.clone());
        let spawned = std::thread::Builder::new().spawn(move || {
            answer(stream, &page);
            open_here.fetch_sub(1, Ordering::SeqCst);
        });
        if spawned.is_err() {
            open.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// One request. A client that does not keep to the rules, or goes away, gets nothing more.
fn answer(mut stream: TcpStream, page: &Mutex<Option<Arc<String>>>) {
    let (status, body) = match head(&mut stream) {
        Some(head) => respond(&head, page),
        None => (
            "400 Bad Request",
            Arc::new("a request ends with an empty line\n".to_owned()),
        ),
    };
    let kind = if status.starts_with("200") {
        "text/plain; version=0.0.4; charset=utf-8"
    } else {
        "text/plain; charset=utf-8"
    };
    let allow = if status.starts_with("405") {
        "Allow: GET, HEAD\r\n"
    } else {
        ""
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.set_write_timeout(Some(PATIENCE));
    // Whoever does not read the answer does not want it.
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(body.as_bytes()));
    let _ = stream.shutdown(Shutdown::Write);
}

/// The head of the request, up to its empty line.
fn head(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let end = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let mut part = [0u8; 1024];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        stream.set_read_timeout(Some(left)).ok()?;
        let got = stream.read(&mut part).ok()?;
        bytes.extend(part.get(..got)?);
        if bytes.windows(4).any(|window| window == b"\r\n\r\n")
            || bytes.windows(2).any(|window| window == b"\n\n")
        {
            return Some(bytes);
        }
        if got == 0 || bytes.len() > LONGEST {
            return None;
        }
    }
}

/// The status that a request with this head gets while there is no document yet.
#[must_use]
pub fn status_of(head: &[u8]) -> &'static str {
    respond(head, &Mutex::new(None)).0
}

fn respond(head: &[u8], page: &Mutex<Option<Arc<String>>>) -> (&'static str, Arc<String>) {
    let text = |text: &str| Arc::new(text.to_owned());
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or(&[]);
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let (method, target, version) = (words.next(), words.next(), words.next());
    if !version.is_some_and(|version| version.starts_with(b"HTTP/1.")) {
        return ("400 Bad Request", text("this is an HTTP/1.1 server\n"));
    }
    if method != Some(b"GET") {
        return ("405 Method Not Allowed", text("only GET\n"));
    }
    let path = target.unwrap_or(&[]);
    let path = path.split(|&byte| byte == b'?').next().unwrap_or(&[]);
    if path != b"/metrics" {
        return ("404 Not Found", text("metrics are at /metrics\n"));
    }
    let page = page.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match page {
        Some(page) => ("200 OK", page),
        None => (
            "503 Service Unavailable",
            text("the first interval is not over\n"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let _ = stream.write_all(request);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[test]
    fn requests_good_bad_and_hostile() {
        let server = Server::start("127.0.0.1".parse().unwrap(), 0).unwrap();
        assert!(server.address().ip().is_loopback());
        let ask = |request: &[u8]| ask(server.address(), request);
        let get = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        assert!(ask(get).starts_with("HTTP/1.1 503"));
        server.publish("truecount_x 1\n".to_owned());
        let answer = ask(get);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("version=0.0.4"), "{answer}");
        assert!(answer.ends_with("\r\n\r\ntruecount_x 1\n"), "{answer}");
        assert!(ask(b"GET /metrics?x=1 HTTP/1.0\n\n").starts_with("HTTP/1.1 200"));
        assert!(ask(b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(b"POST /metrics HTTP/1.1\r\n\r\n").contains("Allow: GET"));
        for hostile in [
            &b""[..],
            b"\r\n\r\n",
            b"\n\n",
            b"GET\r\n\r\n",
            b"GET /metrics\r\n\r\n",
            b"\xff\xfe\x00\x00\r\n\r\n",
            b"GET ../../../etc/passwd HTTP/1.1\r\n",
            &[b'A'; 100_000],
        ] {
            let answer = ask(hostile);
            assert!(
                answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
                "{hostile:?}: {answer}"
            );
        }
        // Clients that say nothing are turned away in the end, and do not keep others out for ever.
        let silent: Vec<_> = (0..MAX_CONNECTIONS)
            .map(|_| TcpStream::connect(server.address()).unwrap())
            .collect();
        std::thread::sleep(PATIENCE + Duration::from_millis(700));
        assert!(ask(get).starts_with("HTTP/1.1 200"));
        drop(silent);
    }
}
