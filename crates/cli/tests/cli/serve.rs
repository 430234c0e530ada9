//! `history serve` and `history push`, over loopback.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::json;

use crate::history::{Project, exact, result};
use crate::support::truecount;

/// A server that ends with the test.
pub(crate) struct Server {
    pub child: Child,
    pub authority: String,
}

impl Server {
    pub(crate) fn start(project: &Project, more: &[&str]) -> Self {
        let mut args = vec!["history", "serve", "--port", "0"];
        args.extend(more);
        let mut command = truecount(&args);
        command
            .current_dir(project.path())
            .env_remove("TRUECOUNT_STORE");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let url = line.split_whitespace().next().unwrap();
        let authority = url
            .strip_prefix("http://")
            .unwrap()
            .trim_end_matches('/')
            .to_owned();
        assert!(authority.starts_with("127.0.0.1:"), "{line}");
        Self { child, authority }
    }

    /// Status and body of the answer to this request line with these headers.
    pub(crate) fn ask(&self, request: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.authority).unwrap();
        write!(
            stream,
            "{request} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n{body}"
        )
        .unwrap();
        let mut answer = Vec::new();
        // One that is refused may be cut off.
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        let status = answer
            .split(' ')
            .nth(1)
            .unwrap_or_else(|| panic!("{request}: {answer}"));
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        (status.parse().unwrap(), body.to_owned())
    }

    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        self.ask(
            &format!("GET {path}"),
            &format!("Host: {}\r\n", self.authority),
            "",
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn readers_see_the_page_and_only_the_token_writes() {
    let Some(project) = Project::new() else {
        return;
    };
    let first = project.commit("first <b>");
    project.add(&result(&[("a", json!({"instructions:u": exact(1000)}))]));
    let text = project.expect(0, &["export", "--format", "records"]);
    let record = text.trim().to_owned();
    project.commit("second");
    std::fs::write(project.path().join("token"), "0123456789abcdef0123\n").unwrap();
    let store = project.path().join("served.db");
    let store = store.to_str().unwrap();
    let server = Server::start(
        &project,
        &["--store", store, "--token-file", "token", "--max-size", "1"],
    );

    let (status, page) = server.get("/");
    assert_eq!(status, 200);
    assert!(page.contains("No commit here has a record yet"), "{page}");
    let host = format!("Host: {}\r\n", server.authority);
    let post = |token: &str, body: &str| {
        let headers = format!(
            "{host}Authorization: Bearer {token}\r\nContent-Length: {}\r\n",
            body.len()
        );
        server.ask("POST /records", &headers, body)
    };
    assert_eq!(post("wrong", &record).0, 401);
    assert_eq!(
        server
            .ask(
                "POST /records",
                &format!("{host}Content-Length: 2\r\n"),
                "{}"
            )
            .0,
        401
    );
    let right = "0123456789abcdef0123";
    let (status, said) = post(right, "{}");
    assert!(status == 400 && said.contains("it has no schema"), "{said}");
    let large = format!("{host}Authorization: Bearer {right}\r\nContent-Length: 99999999\r\n");
    assert_eq!(server.ask("POST /records", &large, "{").0, 413);
    assert_eq!(post(right, &record).0, 201);
    assert_eq!(post(right, &record).0, 200);
    // What came is shown, as text and nothing else; the store's file cannot be named.
    let (_, page) = server.get("/");
    assert!(
        page.contains("\"benchmark\":\"a\"") && page.contains("first \\u003cb>"),
        "{page}"
    );
    let (status, records) = server.get(&format!("/records/{first}"));
    assert!(
        status == 200 && records.contains("truecount.record/1"),
        "{records}"
    );
    for path in [
        "/served.db",
        "/records/../served.db",
        "/records/%2e%2e",
        "/records/",
        "/token",
    ] {
        assert_eq!(server.get(path).0, 404, "{path}");
    }
    assert_eq!(server.ask("DELETE /records", &host, "").0, 405);
    // A page of others that had its name lead here.
    assert_eq!(server.ask("GET /", "Host: evil.example.org\r\n", "").0, 403);
    assert_eq!(server.ask("GET /", "", "").0, 403);

    // The command that sends: all that the project has; a wrong token is told.
    let url = format!("http://{}", server.authority);
    let text = project.expect(0, &["push", "--all", "--token-file", "token", &url]);
    assert_eq!(text, "sent 1 record\n");
    std::fs::write(project.path().join("other"), "another-token-of-16\n").unwrap();
    let text = project.expect(1, &["push", "--all", "--token-file", "other", &url]);
    assert!(text.contains("(401)"), "{text}");
    let text = project.expect(2, &["push", "--token-file", "token", "https://example.org"]);
    assert!(text.contains("no TLS"), "{text}");
    std::fs::write(project.path().join("short"), "short\n").unwrap();
    let text = project.expect(2, &["serve", "--port", "0", "--token-file", "short"]);
    assert!(text.contains("holds no token"), "{text}");
}

#[test]
fn without_a_token_nobody_writes() {
    let Some(project) = Project::new() else {
        return;
    };
    project.commit("first");
    project.add(&result(&[("a", json!({"instructions:u": exact(1000)}))]));
    let server = Server::start(&project, &[]);
    let headers = format!("Host: {}\r\nContent-Length: 2\r\n", server.authority);
    assert_eq!(server.ask("POST /records", &headers, "{}").0, 403);
    assert_eq!(server.get("/").0, 200);
}

/// Values of others, what is exported for others, and a page that is one file.
#[test]
fn in_and_out() {
    let Some(project) = Project::new() else {
        return;
    };
    project.commit("first");
    let hyperfine = project.path().join("h.json");
    let text = r#"{"results": [{"command": "x,y", "times": [0.001, 0.002]}]}"#;
    std::fs::write(&hyperfine, text).unwrap();
    let text = project.expect(0, &["import", hyperfine.to_str().unwrap()]);
    assert!(text.contains("added 1 benchmark (1 value)"), "{text}");
    let bmf: serde_json::Value =
        serde_json::from_str(&project.expect(0, &["export", "--format", "bmf"])).unwrap();
    assert_eq!(bmf["x,y"]["wall-time"]["value"], 1.5e6);
    let smaller = project.expect(0, &["export", "--format", "smaller"]);
    let smaller: serde_json::Value = serde_json::from_str(&smaller).unwrap();
    assert_eq!(smaller[0]["name"], "x,y wall-time");
    let csv = project.expect(0, &["export"]);
    assert!(
        csv.lines()
            .nth(1)
            .unwrap()
            .contains(",\"x,y\",,wall-time,ns,hyperfine,"),
        "{csv}"
    );
    let otava = project.expect(0, &["export", "--format", "otava"]);
    assert_eq!(otava.lines().count(), 2, "{otava}");
    std::fs::write(project.path().join("none.json"), "{\"a\": 1, \"b\": []}").unwrap();
    let text = project.expect(1, &["import", "none.json", "--format", "hyperfine"]);
    assert!(
        text.contains("hyperfine wrote no benchmark into it"),
        "{text}"
    );
    project.expect(
        0,
        &[
            "page",
            "-o",
            "page.html",
            "--commit-url",
            "https://example.org/c/",
        ],
    );
    let page = std::fs::read_to_string(project.path().join("page.html")).unwrap();
    assert!(page.contains("https://example.org/c/") && page.contains("Content-Security-Policy"));
    assert!(
        !page.contains("<script src") && !page.contains("<link"),
        "it names nothing from elsewhere"
    );
    let text = project.expect(2, &["page", "--commit-url", "javascript:x"]);
    assert!(text.contains("not an address of the web"), "{text}");
}
