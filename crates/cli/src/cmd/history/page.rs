//! `truecount history page`: series, change points and their commits as one HTML file, which needs nothing else.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rayon::prelude::*;
use serde::Serialize;
use truecount_history::decide::changes::{Change, changes as changes_of, in_order};
use truecount_history::git::Repository;
use truecount_history::store::{Series, Store};

use super::changes::{Kept, order};
use super::{StoreArgs, explained, number_of};
use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, ResultFile};
use crate::render::markup::escape;
use crate::render::page;

/// Of so many changes, the latest, the functions that moved are told: each needs two records.
const EXPLAINED: usize = 300;

const EXAMPLES: &str = "\
EXAMPLES
  truecount history page -o history.html
  truecount history page -o history.html --commit-url 'https://git.example.org/x/commit/'

The page is one file that loads nothing else, light and dark, for phones too. In the chart:
drag to zoom, + and - at the cursor, arrows move it, Enter opens its commit, Escape shows all.";

/// Write a page with every series, its changes and their commits
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The page
    #[arg(short, long, value_name = "FILE", default_value = "history.html")]
    output: PathBuf,
    #[command(flatten)]
    of: PageArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// What a page shows.
#[derive(Clone, clap::Args)]
pub(super) struct PageArgs {
    /// The branch whose first parents are shown (default: HEAD; without a repository all commits by their times)
    #[arg(long, value_name = "REV")]
    branch: Option<String>,
    /// Only this suite
    #[arg(long, value_name = "NAME")]
    suite: Option<String>,
    /// Address of a commit's page without its name (default: from the remote origin, for GitHub and GitLab)
    #[arg(long, value_name = "URL")]
    commit_url: Option<String>,
}

/// Everything that the page's script shows.
#[derive(Serialize)]
struct Data {
    /// What stands before a commit's name; empty without links.
    link: String,
    /// Name, time, subject.
    commits: Vec<(String, i64, String)>,
    series: Vec<Shown>,
}

#[derive(Serialize)]
struct Shown {
    suite: String,
    benchmark: String,
    parameters: String,
    metric: String,
    machine: String,
    source: String,
    unit: String,
    exact: bool,
    /// Index of each value's commit.
    at: Vec<usize>,
    value: Vec<f64>,
    /// The smallest and largest samples, where they are not the value.
    low: Option<Vec<f64>>,
    high: Option<Vec<f64>>,
    changes: Vec<Told>,
}

#[derive(Serialize)]
struct Told {
    at: usize,
    from: f64,
    to: f64,
    ratio: Option<f64>,
    regression: Option<bool>,
    unmeasured: usize,
    blessed: Option<String>,
    moved: Vec<String>,
}

pub(super) fn run(args: &Args) -> CmdResult {
    let mut store = args.store.open(false)?;
    let html = html(&args.of, &args.store, &mut store)?;
    ResultFile::open(&args.output)?.write(html.as_bytes())?;
    let mut out = Output::stdout();
    use std::io::Write as _;
    writeln!(out, "wrote {}", args.output.display())?;
    out.flush()?;
    Ok(Outcome::OK)
}

/// The page.
pub(super) fn html(
    args: &PageArgs,
    place: &StoreArgs,
    store: &mut Store,
) -> Result<String, Failure> {
    let data = data(args, place, store)?;
    let title = "truecount: history";
    let json = serde_json::to_string(&data).map_err(|error| Failure::new(1, error.to_string()))?;
    // Nothing in it can end the element or begin another.
    let json = json
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
    let head = page::open(title, include_str!("page.css")).replacen(
        "<title>",
        &format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n<title>"),
        1,
    );
    let changes: usize = data.series.iter().map(|series| series.changes.len()).sum();
    let facts = format!(
        "{} over {}, {}",
        number_of(data.series.len(), "series"),
        number_of(data.commits.len(), "commit"),
        number_of(changes, "change")
    );
    if data.series.is_empty() {
        return Ok(format!(
            "{head}<header><h1>History</h1><p>No commit here has a record yet: truecount history add FILE.</p></header>\n{}",
            page::CLOSE
        ));
    }
    Ok(format!(
        "{head}<header><h1>History</h1><p>{}</p></header>\n{BODY}<script type=\"application/json\" id=\"data\">{json}</script>\n<script>\n{}</script>\n{}",
        escape(&facts),
        include_str!("page.js"),
        page::CLOSE
    ))
}

const BODY: &str = r##"<main class="panes">
<nav aria-label="Series"><a class="skip" href="#plot">To the chart</a><input type="search" id="search" placeholder="Search" aria-label="Search series"><div id="list"></div></nav>
<section>
<h2 id="title"></h2><p id="facts" class="dim"></p>
<canvas id="plot" tabindex="0" role="img"></canvas>
<div class="tools"><button id="in">Zoom in</button><button id="out">Zoom out</button><button id="all">All</button><span id="shown"></span><span>Drag to zoom; arrows, + and - by keyboard</span></div>
<div id="read" aria-live="polite"></div>
<div id="changes"><h3>Changes</h3><p id="none" class="dim" hidden>None.</p>
<div class="wide"><table id="table"><thead><tr><th>Commit</th><th>Change</th><th>Values</th><th></th></tr></thead><tbody id="rows"></tbody></table></div></div>
</section>
</main>
"##;

fn data(args: &PageArgs, place: &StoreArgs, store: &mut Store) -> Result<Data, Failure> {
    let commits = order(store, place, args.branch.as_deref())?;
    let mut all = store.series()?;
    all.retain(|series| {
        args.suite
            .as_ref()
            .is_none_or(|suite| *suite == series.key.suite)
    });
    // Commits that nobody measured only make the chart longer.
    let used: std::collections::BTreeSet<&str> = all
        .iter()
        .flat_map(|series| series.points.iter().map(|point| &*point.commit))
        .collect();
    let mut first = commits.len();
    for (place, commit) in commits.iter().enumerate() {
        if used.contains(commit.hash.as_str()) {
            first = place;
            break;
        }
    }
    let commits = commits.get(first..).unwrap_or_default();
    let places: BTreeMap<&str, usize> = commits
        .iter()
        .enumerate()
        .map(|(place, commit)| (commit.hash.as_str(), place))
        .collect();
    let changes: Vec<_> = all
        .par_iter()
        .map(|series| changes_of(series, &places))
        .collect();
    let mut found: Vec<(Series, Vec<Change>)> = all.into_iter().zip(changes).collect();
    let blessings = store.blessings()?;
    let mut latest: Vec<usize> = found
        .iter()
        .flat_map(|(_, changes)| changes.iter().map(|c| c.index))
        .collect();
    latest.sort_unstable_by(|a, b| b.cmp(a));
    let explained = latest.get(EXPLAINED).copied().unwrap_or(0);
    let mut kept = Kept::default();
    let mut series = Vec::new();
    for (one, changes) in &mut found {
        let points = in_order(one, &places);
        if points.is_empty() {
            continue;
        }
        let mut told = Vec::new();
        for change in std::mem::take(changes) {
            let moved = match change.index >= explained {
                true => {
                    let why = kept.explained(store, &change)?;
                    explained::lines(&why.moved, &why.paths)
                }
                false => Vec::new(),
            };
            let blessing = blessings
                .iter()
                .find(|b| b.commit == change.commit && b.covers(&change.benchmark, &change.metric));
            told.push(Told {
                at: change.index,
                from: change.base,
                to: change.other,
                ratio: change.ratio,
                regression: change.regression,
                unmeasured: change.unmeasured,
                blessed: blessing.map(|blessing| blessing.reason.clone()),
                moved,
            });
        }
        let varies = points.iter().any(|(_, point)| point.low != point.high);
        let ends = |of: fn(&truecount_history::store::Point) -> f64| {
            varies.then(|| points.iter().map(|(_, point)| of(point)).collect())
        };
        let key = one.key.clone();
        series.push(Shown {
            suite: key.suite,
            benchmark: key.benchmark,
            parameters: key.parameters,
            metric: key.metric,
            machine: key.machine,
            source: key.source,
            unit: one.unit.clone(),
            exact: points.iter().all(|(_, point)| point.exact),
            at: points.iter().map(|(place, _)| *place).collect(),
            value: points.iter().map(|(_, point)| point.value).collect(),
            low: ends(|point| point.low),
            high: ends(|point| point.high),
            changes: told,
        });
    }
    let link = match &args.commit_url {
        Some(url) if url.starts_with("https://") || url.starts_with("http://") => url.clone(),
        Some(url) => {
            let cause = format!("--commit-url `{url}` is not an address of the web");
            return Err(Failure::new(2, cause).hint("it begins with https:// or http://"));
        }
        None => {
            let remote = place
                .repository()
                .ok()
                .as_ref()
                .and_then(Repository::remote);
            remote
                .and_then(|remote| address(&remote))
                .unwrap_or_default()
        }
    };
    Ok(Data {
        link,
        commits: commits
            .iter()
            .map(|c| (c.hash.clone(), c.time, c.subject.clone()))
            .collect(),
        series,
    })
}

/// The address of commits of a remote, without the commit's name: `git@host:x/y.git` and `https://host/x/y.git`. GitHub,
/// GitLab, Gitea and Bitbucket's forms are one but for Bitbucket's.
fn address(remote: &str) -> Option<String> {
    let path = match remote
        .strip_prefix("https://")
        .or(remote.strip_prefix("ssh://git@"))
    {
        Some(path) => path.to_owned(),
        None => {
            let (host, path) = remote.strip_prefix("git@")?.split_once(':')?;
            format!("{host}/{path}")
        }
    };
    // A password in it is nobody's business.
    let path = path.rsplit_once('@').map_or(&*path, |(_, path)| path);
    let path = path.trim_end_matches('/').trim_end_matches(".git");
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._/~:".contains(c);
    (path.contains('/') && path.chars().all(plain)).then(|| {
        let word = if path.starts_with("bitbucket.org/") {
            "commits"
        } else {
            "commit"
        };
        format!("https://{path}/{word}/")
    })
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn addresses_of_commits() {
        for (remote, expected) in [
            (
                "git@github.com:a/b.git",
                Some("https://github.com/a/b/commit/"),
            ),
            (
                "https://user:secret@gitlab.com/a/b",
                Some("https://gitlab.com/a/b/commit/"),
            ),
            ("ssh://git@host/a/b.git", Some("https://host/a/b/commit/")),
            (
                "https://bitbucket.org/a/b",
                Some("https://bitbucket.org/a/b/commits/"),
            ),
            ("/srv/git/a.git", None),
            ("https://host/a\"><script>", None),
        ] {
            assert_eq!(address(remote).as_deref(), expected, "{remote}");
        }
    }
}
