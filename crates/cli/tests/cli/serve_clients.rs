//! `history serve` with clients that send too much, too slowly or nothing.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::history::Project;
use crate::serve::Server;
use crate::support::interrupt;

const TOKEN: &str = "0123456789abcdef0123";

fn server(project: &Project) -> Server {
    project.commit("first");
    std::fs::write(project.path().join("token"), TOKEN).unwrap();
    Server::start(
        project,
        &[
            "--store",
            "s.db",
            "--token-file",
            "token",
            "--max-size",
            "8",
        ],
    )
}

impl Server {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.authority).unwrap();
        let patience = Some(Duration::from_secs(60));
        stream.set_read_timeout(patience).unwrap();
        stream.set_write_timeout(patience).unwrap();
        stream
    }

    /// The largest memory it has had, in KiB.
    fn peak(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.unwrap().trim().strip_suffix(" kB").unwrap();
        peak.parse().unwrap()
    }
}

/// What is left to read until the other side ends it, one way or another.
fn rest(mut stream: TcpStream) -> String {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    String::from_utf8(rest).unwrap()
}

#[test]
fn what_is_too_large_is_refused_and_takes_no_memory() {
    let Some(project) = Project::new() else {
        return;
    };
    let server = server(&project);
    let host = format!("Host: {}\r\n", server.authority);
    let few = format!("{host}X-Large: {}\r\n", "x".repeat(32 << 10));
    assert_eq!(server.ask("GET /", &few, "").0, 200);
    let mut stream = server.connect();
    let large = "x".repeat(10 << 20);
    write!(stream, "GET / HTTP/1.1\r\n{host}X-Large: ").unwrap();
    // It may be cut off.
    let _ = stream.write_all(large.as_bytes());
    let said = rest(stream);
    assert!(said.starts_with("HTTP/1.1 431 "), "{said}");
    let many: String = (0..10_000).map(|n| format!("X-{n}: y\r\n")).collect();
    assert_eq!(server.ask("GET /", &format!("{host}{many}"), "").0, 431);
    let (status, _) = server.ask(&format!("GET /{large}"), &host, "");
    assert!(matches!(status, 414 | 431), "{status}");

    // Who may not write is told so, and what is too large as well, however much of it comes.
    let post = |token: &str| {
        let length = large.len();
        let token = format!("Authorization: Bearer {token}\r\nContent-Length: {length}\r\n");
        server.ask("POST /records", &format!("{host}{token}"), &large)
    };
    assert_eq!(post("0123456789abcdef").0, 401);
    assert_eq!(post(TOKEN).0, 413);
    // Nobody can say how large one in chunks will be.
    let chunks = format!("{host}Authorization: Bearer {TOKEN}\r\nTransfer-Encoding: chunked\r\n");
    let text = "1\r\n{\r\n1\r\n}\r\n0\r\n\r\n";
    assert_eq!(server.ask("POST /records", &chunks, text).0, 411);
    let both = format!("{chunks}Content-Length: 1\r\n");
    let (status, _) = server.ask("POST /records", &both, text);
    assert!(matches!(status, 400 | 411), "{status}");
    let nothing = format!("{host}Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(server.ask("POST /records", &nothing, "").0, 411);
    let peak = server.peak();
    assert!(peak < 60 << 10, "{peak} KiB");

    // A whole address is asked of a proxy.
    let whole = format!("GET http://{}/", server.authority);
    assert_eq!(server.ask(&whole, &host, "").0, 404);
    // Some shut down their side when they have asked.
    let mut stream = server.connect();
    write!(stream, "GET / HTTP/1.1\r\n{host}\r\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let said = rest(stream);
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    for header in [
        "x-content-type-options: nosniff\r\n",
        "referrer-policy: no-referrer\r\n",
        "cache-control: no-cache\r\n",
        "content-security-policy: frame-ancestors 'none'\r\n",
        "content-type: text/html; charset=utf-8\r\n",
    ] {
        assert!(said.contains(header), "{header}{said}");
    }
    let (status, body) = server.ask("HEAD /", &host, "");
    assert_eq!((status, body.as_str()), (200, ""));
}

#[test]
fn who_waits_is_dropped_and_keeps_nobody_from_an_answer() {
    let Some(project) = Project::new() else {
        return;
    };
    let server = server(&project);
    let begun = Instant::now();
    let half = |_| {
        let mut stream = server.connect();
        write!(stream, "GET / HTTP/1.1\r\nHost: loc").unwrap();
        stream
    };
    let slow: Vec<TcpStream> = (0..20).map(half).collect();
    assert_eq!(server.get("/").0, 200);
    let taken = begun.elapsed();
    assert!(taken < Duration::from_secs(8), "{taken:?}");
    // More than have a place: others wait until those are dropped.
    let more: Vec<TcpStream> = (0..300).map(half).collect();
    assert_eq!(server.get("/").0, 200);
    let taken = begun.elapsed();
    assert!(taken > Duration::from_secs(8), "{taken:?}");
    for stream in slow.into_iter().chain(more) {
        assert_eq!(rest(stream), "");
    }
}

#[test]
fn who_waits_does_not_keep_ctrl_c_waiting() {
    let Some(project) = Project::new() else {
        return;
    };
    let mut server = server(&project);
    let mut idle: Vec<TcpStream> = (0..300).map(|_| server.connect()).collect();
    for (at, stream) in idle.iter_mut().take(200).enumerate() {
        match at % 3 {
            0 => {}
            1 => write!(stream, "GET / HTTP/1.1\r\nHo").unwrap(),
            _ => write!(
                stream,
                "POST /records HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
                 Content-Length: 1000\r\n\r\n{{"
            )
            .unwrap(),
        }
    }
    let begun = Instant::now();
    interrupt(&server.child, Duration::from_millis(300));
    let status = server.child.wait().unwrap();
    let taken = begun.elapsed();
    assert_eq!(status.code(), Some(0));
    assert!(taken < Duration::from_secs(5), "{taken:?}");
}
