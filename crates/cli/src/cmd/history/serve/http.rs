//! HTTP for `history serve`: what a client may take of memory, of places and of time. A thread of its own waits for all
//! connections.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::{Busy, Shared, WORKERS};

/// So many connections are open at once; others wait until one ends.
const CONNECTIONS: usize = 256;

/// The request line and the headers have so many bytes.
const HEADERS: usize = 64 << 10;

/// A client that was refused while it was still sending reads the answer in so long.
const LINGER: Duration = Duration::from_secs(2);

/// After an accept that failed, because no descriptor is free, say.
const PAUSE: Duration = Duration::from_millis(100);

/// How long clients are waited for.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// From the connection to the end of the headers.
    pub headers: Duration,
    /// For a whole record.
    pub record: Duration,
    /// From the connection to the end of the answer.
    pub whole: Duration,
}

impl Patience {
    pub(super) const USUAL: Self = Self {
        headers: Duration::from_secs(10),
        record: Duration::from_secs(120),
        whole: Duration::from_secs(180),
    };
}

pub(super) struct Listening {
    runtime: Runtime,
    listener: tokio::net::TcpListener,
}

impl Listening {
    pub(super) fn new(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(WORKERS)
            .build()?;
        let inside = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        drop(inside);
        Ok(Self { runtime, listener })
    }

    /// Answers for the life of the process.
    pub(super) fn answer(self, shared: Arc<Shared>) -> io::Result<()> {
        std::thread::Builder::new()
            .name("http".to_owned())
            .spawn(move || self.runtime.block_on(accept(self.listener, shared)))?;
        Ok(())
    }
}

async fn accept(listener: tokio::net::TcpListener, shared: Arc<Shared>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // Whoever has gone away, or takes too long, needs no answer.
            let _ = timeout(shared.patience.whole, connection(stream, shared)).await;
            drop(place);
        });
    }
}

/// One request and its answer: a connection that is kept would hold a place.
async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let headers = shared.patience.headers;
    let busy = Cell::new(None);
    let service = service_fn(move |request| {
        // It goes with the service, when the answer is on its way.
        busy.set(Some(Busy::new(&shared)));
        let answer = Arc::clone(&shared).answer(request);
        Box::pin(async { Ok::<_, Infallible>(answer.await) })
    });
    let mut http = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(headers)
        .max_buf_size(HEADERS)
        .keep_alive(false)
        // Some send a request and shut down their side.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let _ = poll_fn(|cx| http.poll_without_shutdown(cx)).await;
    let parts = http.into_parts();
    drop(parts.service);
    // Closed with bytes unread, a connection is reset, which may take the answer from whoever still sends.
    let mut stream = parts.io.into_inner();
    if stream.shutdown().await.is_ok() {
        let mut rest = vec![0; 8 << 10];
        let read = async { while matches!(stream.read(&mut rest).await, Ok(1..)) {} };
        let _ = timeout(LINGER, read).await;
    }
}
