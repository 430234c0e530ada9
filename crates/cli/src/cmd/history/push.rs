//! `truecount history push`: sends records to a `history serve`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use super::StoreArgs;
use super::number_of;
use super::serve::token;
use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::Output;

/// So long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

const EXAMPLES: &str = "\
EXAMPLES
  truecount history push --token-file token http://127.0.0.1:8737
  truecount history push --token-file token --commit v1.2 http://127.0.0.1:8737

It speaks HTTP without TLS: send to a server elsewhere through a tunnel (ssh -L 8737:127.0.0.1:8737
HOST), or by curl (truecount history export --format records prints one record a line).";

/// Send the records of a commit to a server (history serve)
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The server: http://HOST:PORT
    #[arg(value_name = "URL")]
    url: String,
    /// The file that holds the token
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// The commit whose records are sent
    #[arg(long, value_name = "REV", default_value = "HEAD")]
    commit: String,
    /// Send the records of all commits
    #[arg(long, conflicts_with = "commit")]
    all: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub(super) fn run(args: &Args) -> CmdResult {
    let token = token(&args.token_file)?;
    let authority = args.url.strip_prefix("http://").ok_or_else(|| {
        Failure::new(2, format!("`{}` is not http://HOST:PORT", args.url))
            .hint("push has no TLS: use a tunnel, or curl")
    })?;
    let authority = authority.trim_end_matches('/');
    let usual = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    if authority.is_empty() || !authority.chars().all(usual) {
        return Err(Failure::new(
            2,
            format!("`{}` is not http://HOST:PORT", args.url),
        ));
    }
    let mut store = args.store.open(false)?;
    let mut texts = Vec::new();
    if args.all {
        store.documents(|_, text| {
            texts.push(text.to_owned());
            Ok(())
        })?;
    } else {
        let hash = args.store.repository()?.resolve(&args.commit)?;
        for record in store.records(&hash, None)? {
            texts.push(record.text()?);
        }
    }
    if texts.is_empty() {
        let cause = format!("{} has no record", args.commit);
        return Err(Failure::new(1, cause).hint("truecount history show lists those that have"));
    }
    for text in &texts {
        let (status, said) = post(authority, &token, text).map_err(|error| {
            Failure::new(1, format!("cannot send to {authority}: {error}"))
                .hint("is truecount history serve running there?")
        })?;
        if !matches!(status, 200 | 201) {
            let said: String = said.chars().filter(|c| !c.is_control()).take(300).collect();
            return Err(Failure::new(
                1,
                format!("{authority} did not take it ({status}): {said}"),
            ));
        }
    }
    let mut out = Output::stdout();
    writeln!(out, "sent {}", number_of(texts.len(), "record"))?;
    out.flush()?;
    Ok(Outcome::OK)
}

/// Sends a record: status and text of the answer.
fn post(authority: &str, token: &str, text: &str) -> std::io::Result<(u16, String)> {
    let address = match authority.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => authority.to_owned(),
        _ => format!("{authority}:80"),
    };
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "POST /records HTTP/1.1\r\nHost: {authority}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    )?;
    // One that refuses may close before all is sent: what it said counts.
    let sent = stream.write_all(text.as_bytes());
    let mut answer = Vec::new();
    let read = stream.take(64 << 10).read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    match status {
        Some(status) => {
            let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
            Ok((status, body.trim().to_owned()))
        }
        None => {
            sent?;
            read?;
            Err(std::io::Error::other("it did not answer by HTTP"))
        }
    }
}
